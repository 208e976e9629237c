#include "count_visits.h"
#include "device/launch.h"

namespace overlapbench {
namespace {

template <int Threads>
struct CountVisitsBody {
  static constexpr int kThreads = Threads;
  int* visits;
  long count;
  OVERLAPBENCH_BODY void operator()(const Block& block) const {
    block.ForEach(count, [this](long i) { ++visits[i]; });
  }
};

}  // namespace

template <int Threads>
void EnqueueCountVisits(Stream& stream, int blocks, int* visits, long count) {
  Launch(stream, blocks, CountVisitsBody<Threads>{visits, count});
}

template void EnqueueCountVisits<1>(Stream&, int, int*, long);
template void EnqueueCountVisits<32>(Stream&, int, int*, long);
template void EnqueueCountVisits<1000>(Stream&, int, int*, long);

}  // namespace overlapbench
