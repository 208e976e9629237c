// The catalog: every workload and every family of scenarios that this build knows, from the lists
// kernels/kernels.def, comm/comm.def and benchmarks/scenarios.def.
#pragma once

#include <string>
#include <vector>

#include "benchmarks/plan.h"

namespace overlapbench {

void FillRegistry(Registry& registry, Machine& machine);

std::vector<Family> AllFamilies();
// The scenarios of every family, in the order of benchmarks/scenarios.def.
std::vector<Scenario> AllScenarios(const Catalog& catalog);
// The counters of any family's rows, those that several families share, and those of each family.
CounterTable AllCounters();
// Adds the workloads' axes, which readers of results need, to the table.
void AddWorkloads(CounterTable& table, const Registry& registry);
// Plans every family's scenarios, or only those of `pairs` (pair.h) if there are any. Throws
// UsageError for an unknown axis or workload, and for values that no scenario accepts. The registry
// must outlive the plan.
Plan MakePlan(const Catalog& catalog, const std::vector<AxisOverride>& overrides,
              const std::vector<std::string>& pairs = {});

}  // namespace overlapbench
