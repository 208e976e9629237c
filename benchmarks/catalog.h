// The catalog: every workload and every family of scenarios that this build knows, from the lists
// kernels/kernels.def, comm/comm.def and benchmarks/scenarios.def.
#pragma once

#include <string>
#include <vector>

#include "benchmarks/plan.h"

namespace overlapbench {

void FillRegistry(Registry& registry, Machine& machine);

std::vector<Family> AllFamilies();
// Of every family, in their order.
std::vector<Scenario> AllScenarios(const Catalog& catalog);
// Those of rows of any family, those that several families share, and those of each family.
CounterTable AllCounters();
// What readers of results must know of the workloads: their axes.
void AddWorkloads(CounterTable& table, const Registry& registry);
// Every family's scenarios, or those of `pairs` alone if there are any (pair.h). Throws
// UsageError for an unknown axis or workload, and for values that no scenario accepts. The registry
// and the table must outlive the plan.
Plan MakePlan(const Catalog& catalog, const CounterTable& table,
              const std::vector<AxisOverride>& overrides,
              const std::vector<std::string>& pairs = {});

}  // namespace overlapbench
