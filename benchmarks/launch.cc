// Launch: what launching a kernel costs, and how long a kernel must be for it not to matter.
#include "benchmarks/plan.h"
#include "fixtures/launch_fixture.h"

namespace overlapbench {

void PlanLaunch(Plan& plan) {
  plan.Add<RoundTripFixture>("Launch", {"", "RoundTrip", {}});
  plan.Add<EmptyLaunchFixture>("Launch", {"", "EmptyKernel", {}});
  plan.Add<PiecesFixture>("Launch", {"", "Pieces", {}, {"Whole"}});
}

}  // namespace overlapbench
