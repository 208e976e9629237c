// Priority: identical work on a stream of high priority and on one of equal priority, under a load.
//
// Names read Priority/<work>+<load>. Where SMs become free all the time (ShortBlocks) priority must
// help; where the load stays until its end (ResidentGrid) and where copies are concerned it cannot,
// and the rows say so. Each has its negative control, priority:equal.
#include "benchmarks/plan.h"
#include "fixtures/priority_fixture.h"

namespace overlapbench {
namespace {

struct Pair {
  const char* work;
  const char* load;
};
constexpr Pair kPairs[] = {{"ShortBlocks", "ShortBlocks"},
                           {"ShortBlocks", "ResidentGrid"},
                           {"ShortBlocks", "HostToDevice"},
                           {"HostToDevice", "ShortBlocks"},
                           {"HostToDevice", "HostToDevice"}};

}  // namespace

void PlanPriority(Plan& plan, const Device& device) {
  if (device.priorities() < 2) {
    plan.AddUnavailable<PriorityFixture>(
        "Priority",
        "streams have no priorities here: an unprivileged process cannot raise a "
        "thread's, and some GPUs have none");
    return;
  }
  for (const auto& [work, load] : kPairs) {
    plan.Add<PriorityFixture>("Priority", {work, load, {{"bytes", "64M"}}});
  }
}

}  // namespace overlapbench
