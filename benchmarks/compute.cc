// Compute: every computation alone. The baselines of the overlap scenarios, and their ceilings.
#include "benchmarks/plan.h"
#include "fixtures/baseline_fixture.h"

namespace overlapbench {

void PlanCompute(Plan& plan, const Registry& registry) {
  for (const auto& spec : registry.specs()) {
    if (spec.baseline && spec.side == Side::kCompute)
      plan.Add<BaselineFixture>("Compute", {"", spec.name, {}});
  }
}

}  // namespace overlapbench
