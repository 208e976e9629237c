// Partitions: on every backend a stream runs on as many SMs as requested, and otherwise behaves
// like any other stream.
#include "fixtures/sm_census.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "backends.h"
#include "watched_stream.h"

namespace overlapbench {
namespace {

// The first kernels find all cores but one occupied.
class CrowdedStream : public WatchedStream {
 public:
  CrowdedStream(Stream& stream, int kernels) : WatchedStream(stream), kernels_(kernels) {}
  [[nodiscard]] int launched() const { return launched_; }
  void EnqueueBlocks(int blocks, std::function<void(int)> block) override {
    if (++launched_ > kernels_) return WatchedStream::EnqueueBlocks(blocks, std::move(block));
    WatchedStream::EnqueueBlocks(1, [blocks, block = std::move(block)](int) {
      for (int i = 0; i < blocks; ++i) block(i);
    });
  }

 private:
  int kernels_;
  int launched_ = 0;
};

class SmCensusTest : public OnEachBackend {
 protected:
  std::set<long> SmsOf(Stream& stream, int expected) {
    return SmCensus(device(), stream, expected, kPatience);
  }
  int CountSms(const StreamOptions& options) {
    const int expected = options.sms == 0 ? all() : options.sms;
    return static_cast<int>(SmsOf(*device().CreateStream(options), expected).size());
  }
  int all() { return device().info().multiprocessors; }
  // Sizes of partitions; empty on a device that has none.
  std::vector<int> Parts() {
    const auto& [least, step, most] = device().info().partitions;
    std::vector<int> sizes;
    for (const int size : {least, least + step, most}) {
      if (size > 0 && size <= most && (sizes.empty() || size != sizes.back()))
        sizes.push_back(size);
    }
    return sizes;
  }
};
INSTANTIATE_ON_EACH_BACKEND(SmCensusTest);

TEST_P(SmCensusTest, AStreamWithoutAPartitionRunsOnAllSms) { EXPECT_EQ(CountSms({}), all()); }

TEST(SmCensusOnTheHost, CountsAgainWhileOtherProgramsKeepACore) {
  const auto device = OpenHostDevice(2);
  const auto stream = device->CreateStream();
  CrowdedStream crowded(*stream, 3);
  EXPECT_EQ(SmCensus(*device, crowded, 2, kPatience).size(), 2);
  EXPECT_GE(crowded.launched(), 4);
  CrowdedStream full(*stream, 1000);
  EXPECT_EQ(SmCensus(*device, full, 2, kPatience).size(), 1);
  EXPECT_EQ(full.launched(), 32);
  CrowdedStream enough(*stream, 1000);
  EXPECT_EQ(SmCensus(*device, enough, 1, kPatience).size(), 1);
  EXPECT_EQ(enough.launched(), 1);
}

TEST_P(SmCensusTest, APartitionRunsOnExactlyItsSms) {
  if (Parts().empty()) GTEST_SKIP() << "this device has no partitions";
  for (const int size : Parts()) EXPECT_EQ(CountSms({.sms = size}), size);
}

TEST_P(SmCensusTest, APartitionOfAllSmsLimitsNothing) {
  if (Parts().empty()) GTEST_SKIP() << "this device has no partitions";
  EXPECT_EQ(CountSms({.sms = all()}), all());
}

TEST_P(SmCensusTest, APartitionMayHaveAnyPriority) {
  if (Parts().empty()) GTEST_SKIP() << "this device has no partitions";
  const int size = Parts().front();
  for (int priority = 0; priority < device().info().priorities; ++priority) {
    const StreamOptions options{.priority = priority, .sms = size};
    EXPECT_EQ(device().PriorityOf(*device().CreateStream(options)), priority);
    EXPECT_EQ(CountSms(options), size) << priority;
  }
}

// Two streams of one size on a GPU: a measurement on one must hold for the other.
TEST_P(SmCensusTest, PartitionsOfOneSizeAreTheSameSms) {
  if (GetParam() == Backend::kHost) GTEST_SKIP() << "a host stream's first core is its own thread";
  const StreamOptions options{.sms = device().info().partitions.least};
  const auto one = device().CreateStream(options);
  const auto other = device().CreateStream(options);
  EXPECT_EQ(SmsOf(*one, options.sms), SmsOf(*other, options.sms));
}

TEST_P(SmCensusTest, APartitionThatDoesNotExistIsRefused) {
  const auto& [least, step, most] = device().info().partitions;
  for (const int size : {-1, least - 1, most + 1, all() + 1}) {
    if (PartitionFault(device().info(), size).empty()) continue;
    EXPECT_THROW(device().CreateStream({.sms = size}), Error) << size;
  }
  EXPECT_NE(PartitionFault(device().info(), all() + 1), "");
}

// Events on either stream order the other one and measure the time between them, and the gate holds
// both. In the end every value contains both streams' steps.
TEST_P(SmCensusTest, EventsAndTheGateOrderAPartitionsStream) {
  if (Parts().empty()) GTEST_SKIP() << "this device has no partitions";
  const auto limited = device().CreateStream({.sms = Parts().front()});
  const auto free = device().CreateStream();
  const auto gate = device().CreateGate();
  const auto begin = device().CreateEvent();
  const auto end = device().CreateEvent();
  const auto handed_over = device().CreateEvent({.timed = false});
  // Page-locked: a copy of pageable memory may keep the host until the gate opens, which is never.
  constexpr std::size_t kCount = 1 << 20;
  const Buffer from = device().Allocate(kCount * sizeof(int), MemoryKind::kPinned);
  const Buffer through = device().Allocate(from.bytes(), MemoryKind::kDevice);
  const Buffer to = device().Allocate(from.bytes(), MemoryKind::kPinned);
  const std::span first(static_cast<int*>(from.data()), kCount);
  const std::span last(static_cast<int*>(to.data()), kCount);
  std::ranges::fill(first, 1);
  std::ranges::fill(last, 0);
  gate->Arm(*limited);
  limited->Record(*begin);
  limited->Copy(through.data(), from.data(), from.bytes());
  limited->Record(*handed_over);
  free->Wait(*handed_over);
  free->Copy(to.data(), through.data(), to.bytes());
  free->Record(*end);
  limited->Wait(*end);
  limited->Record(*end);
  EXPECT_FALSE(end->Await(std::chrono::milliseconds(20)));
  gate->Release();
  limited->Synchronize(kPatience, "the test");
  free->Synchronize(kPatience, "the test");
  EXPECT_TRUE(std::ranges::equal(last, first));
  EXPECT_GE(device().ElapsedMs(*begin, *end), 0);
}

}  // namespace
}  // namespace overlapbench
