// A program with workloads of its own compiles this file again, with longer lists
// (cmake/add_bench.cmake).
#include "benchmarks/catalog.h"

#include <utility>

#include "benchmarks/against_copy.h"
#include "benchmarks/pair.h"
#include "benchmarks/supply.h"
#include "benchmarks/training.h"

namespace overlapbench {

using Specs = std::vector<WorkloadSpec>;

// Each line of a list declares a function and calls it. A build without CUDA has no functions for
// the workloads that need it.
#define WORKLOAD(function)         \
  extern Specs function(Machine&); \
  registry.Add(function(machine));
#ifdef OVERLAPBENCH_WITH_CUDA
#define CUDA_WORKLOAD(function, name, work_class, baseline) WORKLOAD(function)
#else
#define CUDA_WORKLOAD(function, name, work_class, baseline) \
  registry.Add(Specs{Unavailable(name, work_class, "exists on the cuda backend only", baseline)});
#endif
#define FAMILY(function)    \
  extern Family function(); \
  all.push_back(function());

void FillRegistry(Registry& registry, Machine& machine) {
#include "comm/comm.def"
#include "kernels/kernels.def"
}

namespace families {

std::vector<Family> All() {
  std::vector<Family> all;
#include "benchmarks/scenarios.def"
  return all;
}

}  // namespace families

std::vector<Family> AllFamilies() { return families::All(); }

std::vector<Scenario> AllScenarios(const Catalog& catalog) {
  std::vector<Scenario> all;
  for (const Family& family : AllFamilies()) {
    try {
      for (Scenario& scenario : family.scenarios(catalog)) all.push_back(std::move(scenario));
    } catch (const UsageError& error) {
      // Nobody asked for a default that does not exist here, so it costs only its own family.
      all.push_back({.name = family.name, .missing = error.what()});
    }
  }
  return all;
}

CounterTable AllCounters() {
  CounterTable table;
  for (const std::vector<Counter>& shared :
       {PairCounters(), FormCounters(), SupplyCounters(), TrainingCounters(), TraceCounters()})
    table.Add(shared);
  for (const Family& family : AllFamilies()) {
    table.Add(family.counters);
    table.Add(FamilyText{family.name, family.about, family.lead});
  }
  return table;
}

void AddWorkloads(CounterTable& table, const Registry& registry) {
  for (const WorkloadSpec& spec : registry.specs()) {
    std::vector<std::string> axes;
    for (const Axis& axis : spec.axes) axes.push_back(axis.name);
    table.Add(WorkloadText{spec.name, axes});
  }
}

Plan MakePlan(const Catalog& catalog, const std::vector<AxisOverride>& overrides,
              const std::vector<std::string>& pairs) {
  Plan plan(overrides);
  for (const std::string& pair : pairs) plan.Add(OverlapPair(catalog, pair));
  if (!pairs.empty()) {
    plan.RequireKnownAxes();
    return plan;
  }
  for (const WorkloadSpec& spec : catalog.workloads.specs()) plan.Know(spec.axes);
  for (const Scenario& scenario : AllScenarios(catalog)) plan.Add(scenario);
  plan.RequireKnownAxes();
  return plan;
}

}  // namespace overlapbench
