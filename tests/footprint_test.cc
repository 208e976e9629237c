// Footprints: a row's works allocate no more than they say that they need, so that a row that does
// not fit is refused before anything is made.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "benchmarks/catalog.h"
#include "benchmarks/plan.h"
#include "test_ranks.h"
#include "tests/forwarding_device.h"

namespace overlapbench {
namespace {

class CountingDevice : public ForwardingDevice {
 public:
  using ForwardingDevice::ForwardingDevice;

  Buffer Allocate(std::size_t bytes, MemoryKind kind) override {
    (kind == MemoryKind::kDevice ? allocated_.device_bytes : allocated_.host_bytes) += bytes;
    return ForwardingDevice::Allocate(bytes, kind);
  }
  Footprint TakeAllocated() { return std::exchange(allocated_, {}); }

 private:
  Footprint allocated_;
};

// A few words, as of workloads that measure launches, need not be counted.
constexpr std::size_t kFewBytes = 4096;

void ExpectCovered(CountingDevice& device, const std::vector<Work>& works) {
  std::vector<std::unique_ptr<Workload>> made;
  for (const Work& work : works) {
    made.push_back(work->make());
    made.back()->Connect();
  }
  const Footprint allocated = device.TakeAllocated();
  const Footprint said = FootprintOf(works);
  EXPECT_GE(said.device_bytes + kFewBytes, allocated.device_bytes);
  EXPECT_GE(said.host_bytes + kFewBytes, allocated.host_bytes);
}

// On the host backend only: the rows of cuda need gigabytes each.
TEST(FootprintTest, CoversTheAllocationsOfARowsWorks) {
  CountingDevice device(OpenHostDevice(1));
  Machine machine{device, TestRanks()};
  Registry registry;
  FillRegistry(registry, machine);
  const Plan plan = MakePlan(
      {registry, device, machine},
      {{"bytes", "1M"}, {"place", "out,in"}, {"precision", "fp32,bf16"}, {"offset", "0,3"}});
  ASSERT_GT(plan.benchmarks().size(), 50U);
  for (const Benchmark& benchmark : plan.benchmarks()) {
    SCOPED_TRACE(benchmark.name);
    std::vector<Work> works;
    for (const auto& run : benchmark.runs(benchmark.settings))
      for (const Work& work : run.schedule.works())
        if (std::ranges::find(works, work) == works.end()) works.push_back(work);
    ExpectCovered(device, works);
    // The row's own run alone: training steps report its memory. Works of other runs may share it.
    ExpectCovered(device, benchmark.runs(benchmark.settings).back().schedule.works());
  }
}

}  // namespace
}  // namespace overlapbench
