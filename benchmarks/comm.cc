// Comm: every communication alone: collectives and copies.
//
// nccl-tests measures in another cadence, 20 operations back to back in a warm cache; to compare
// with it:
//   --axis cache=warm --axis cadence=streaming
#include "benchmarks/plan.h"
#include "fixtures/baseline_fixture.h"

namespace overlapbench {

void PlanComm(Plan& plan, const Registry& registry) {
  for (const auto& spec : registry.specs()) {
    if (spec.baseline && spec.side != Side::kCompute)
      plan.Add<BaselineFixture>("Comm", {"", spec.name, {}});
  }
}

}  // namespace overlapbench
