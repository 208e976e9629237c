// Comm: every collective and every copy alone.
//
// nccl-tests measures 20 operations back to back in a warm cache. To compare with it:
//   --axis cache=warm --axis cadence=streaming
#include "benchmarks/scenario.h"

namespace overlapbench::families {

namespace {

std::vector<Scenario> Scenarios(const Catalog& catalog) {
  std::vector<Scenario> scenarios;
  for (const WorkloadSpec& spec : catalog.workloads.specs()) {
    if (spec.baseline && spec.work_class != WorkClass::kCompute)
      scenarios.push_back(Baseline("Comm/" + spec.name, spec));
  }
  return scenarios;
}

}  // namespace

Family Comm() {
  return {.name = "Comm",
          .about = "Every collective and copy by itself, in the definitions of nccl-tests.",
          .lead = {"time", "busbw_GBps", "algbw_GBps", "GBps"},
          .scenarios = &Scenarios};
}

}  // namespace overlapbench::families
