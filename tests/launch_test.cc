// Launch: a body that loops with Block::ForEach visits every element once, on every backend.
#include <algorithm>
#include <vector>

#include "backends.h"
#include "count_visits.h"

namespace overlapbench {
namespace {

class LaunchTest : public OnEachBackend {
 protected:
  template <class Enqueue>
  void ExpectEachOnce(const Enqueue& enqueue) {
    constexpr long kMost = 100'000;
    const auto stream = device().CreateStream();
    const Buffer visits = device().Allocate(kMost * sizeof(int), MemoryKind::kDevice);
    const std::vector<int> zeros(kMost, 0);
    for (const int blocks : {1, 2, 7, 64, 1000}) {
      for (const long count : {0L, 1L, 4095L, 4096L, 4097L, kMost}) {
        stream->Copy(visits.data(), zeros.data(), visits.bytes());
        enqueue(*stream, blocks, static_cast<int*>(visits.data()), count);
        std::vector<int> seen(kMost);
        stream->Copy(seen.data(), visits.data(), visits.bytes());
        stream->Synchronize(kPatience, "counting visits");
        std::vector<int> expected(kMost, 0);
        std::fill_n(expected.begin(), count, 1);
        ASSERT_EQ(seen, expected) << blocks << " blocks over " << count << " elements";
      }
    }
  }
};
INSTANTIATE_ON_EACH_BACKEND(LaunchTest);

TEST_P(LaunchTest, OneThreadPerBlockVisitsEveryElementOnce) {
  ExpectEachOnce(EnqueueCountVisits<1>);
}

TEST_P(LaunchTest, OneWarpPerBlockVisitsEveryElementOnce) {
  ExpectEachOnce(EnqueueCountVisits<32>);
}

TEST_P(LaunchTest, ManyThreadsPerBlockVisitEveryElementOnce) {
  ExpectEachOnce(EnqueueCountVisits<1000>);
}

}  // namespace
}  // namespace overlapbench
