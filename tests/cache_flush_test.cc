// The cache flush: a sweep of the whole buffer stands before every sample, and no rank starts its
// sample while another still sweeps.
#include "fixtures/cache_flush.h"

#include <memory>
#include <vector>

#include "fake_workload.h"
#include "fixtures/sampler.h"
#include "recording_device.h"
#include "test_ranks.h"

namespace overlapbench {
namespace {

using std::chrono_literals::operator""ms;

// A sweep writes this to its sink if one thread has read it among zeros.
constexpr float kNoted = 1e30F;

// Remembers its first stream as well: a sampler's own.
class FirstStreamDevice : public RecordingDevice {
 public:
  using RecordingDevice::RecordingDevice;
  std::unique_ptr<Stream> CreateStream(const StreamOptions& options) override {
    auto stream = RecordingDevice::CreateStream(options);
    if (first_ == nullptr) first_ = stream.get();
    return stream;
  }
  Stream& first() { return *first_; }

 private:
  Stream* first_ = nullptr;
};

class CacheFlushTest : public RanksOnEachBackend {
 protected:
  void SetUp() override {
    RanksOnEachBackend::SetUp();
    if (IsSkipped()) return;
    device_ = std::make_unique<FirstStreamDevice>(OpenDevice());
  }
  [[nodiscard]] Machine swept_machine() { return {*device_, TestRanks()}; }

  std::unique_ptr<FirstStreamDevice> device_;
  Workloads workloads_;
};
INSTANTIATE_ON_EACH_BACKEND(CacheFlushTest);

TEST_P(CacheFlushTest, EverySampleFollowsASweepOfTheWholeBuffer) {
  Sampler sampler(swept_machine(), {.gate = true, .cold = true, .batch = 1});
  const auto buffers = device_->TakeAllocated();
  ASSERT_EQ(buffers.size(), 2U);  // what is swept, and the sink
  EXPECT_GE(buffers[0].size(), 2 * device_->info().cache_bytes);
  const auto stream = device_->CreateStream({});
  std::vector<float> last_is_noted(buffers[0].size() / sizeof(float));
  last_is_noted.back() = kNoted;
  stream->Copy(buffers[0].data(), last_is_noted.data(), buffers[0].size());
  stream->Synchronize(kPatience, "the test");

  const Buffer seen = device_->Allocate(sizeof(float), MemoryKind::kPinned);
  const float nothing = 0;
  Behaviour looking;
  looking.enqueue = [&](Stream& lane) { lane.Copy(seen.data(), buffers[1].data(), sizeof(float)); };
  const Work work = FakeWork("looking", WorkClass::kCompute, looking);
  workloads_[work] = work->make();
  LaneStreams streams(*device_);
  for (const bool gated : {true, false, true}) {
    const auto run = SoloRun(work, gated);
    PreparedRun prepared(run, swept_machine(), streams, workloads_);
    stream->Copy(buffers[1].data(), &nothing, sizeof(float));
    stream->Synchronize(kPatience, "the test");
    std::vector<std::uint64_t> marks;
    prepared.MarkSteps([&](std::uint64_t mark) { marks.push_back(mark); });
    sampler.Take(prepared);
    EXPECT_EQ(*static_cast<const float*>(seen.data()), kNoted) << "gated: " << gated;
    EXPECT_EQ(marks, (std::vector<std::uint64_t>{2, 0, 1, 0})) << "the flush, the step";
  }
}

// A collective would wait for the rank that starts late, and its time would contain the wait.
TEST_P(CacheFlushTest, TheSampleWaitsForTheRankThatFlushesLongest) {
  if (TestRanks().size() == 1) GTEST_SKIP() << "needs a second rank";
  constexpr auto kLong = 180ms;
  constexpr double kShort_ms = 60;
  Machine machine = swept_machine();
  Sampler sampler(machine, {.gate = true, .cold = false, .batch = 1});
  Registry registry;
  FillRegistry(registry, machine);
  const WorkloadSpec& all_reduce = registry.Find("AllReduce");
  const Work work = MakeWork(all_reduce, SettingsOf(all_reduce.axes, {{"bytes", "1536"}}));
  workloads_[work] = work->make();
  workloads_[work]->Connect();
  LaneStreams streams(*device_);
  const auto run = SoloRun(work);
  PreparedRun prepared(run, machine, streams, workloads_);
  sampler.RunOnce(prepared);
  const auto flushing = DelayWork(machine, "flushing", kLong)->make();
  if (TestRanks().rank() > 0) flushing->Enqueue(device_->first());
  EXPECT_LT(sampler.Take(prepared).total_ms, kShort_ms);
}

}  // namespace
}  // namespace overlapbench
