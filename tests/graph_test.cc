// Graphs: work that was recorded once and is enqueued as a whole.

#include <algorithm>
#include <functional>
#include <memory>
#include <vector>

#include "devices.h"
#include "workload/steps.h"

namespace overlapbench {
namespace {

class GraphTest : public DeviceTest {
 protected:
  static constexpr long kCount = 1000;
  static constexpr float kFirst = 5;

  void SetUp() override {
    DeviceTest::SetUp();
    if (IsSkipped()) return;
    on_device_ = device().Allocate(kCount * sizeof(float), MemoryKind::kDevice);
    input_ = device().Allocate(kCount * sizeof(float), MemoryKind::kPinned);
    output_ = device().Allocate(kCount * sizeof(float), MemoryKind::kPinned);
    SetAll(input_, kFirst);
    SetAll(output_, 0);
  }

  // In, two steps more, and out.
  void EnqueueWork(Stream& stream) {
    auto* values = static_cast<float*>(on_device_.data());
    stream.Copy(values, input_.data(), input_.bytes());
    for (int i = 0; i < 2; ++i) EnqueueSteps(device(), stream, values, values, kCount, 1);
    stream.Copy(output_.data(), values, output_.bytes());
  }
  std::unique_ptr<Graph> RecordWork() {
    return device().Record([this](Stream& stream) { EnqueueWork(stream); });
  }
  void Launch(Graph& graph) {
    graph.Launch(stream());
    Finish(stream());
  }
  static void SetAll(const Buffer& buffer, float value) {
    std::fill_n(static_cast<float*>(buffer.data()), kCount, value);
  }
  void ExpectOutput(float value) const {
    const auto* values = static_cast<const float*>(output_.data());
    EXPECT_EQ(std::vector<float>(values, values + kCount), std::vector<float>(kCount, value));
  }

  Buffer on_device_;
  Buffer input_;
  Buffer output_;
};
INSTANTIATE_ON_EACH_BACKEND(GraphTest);

TEST_P(GraphTest, RecordingRunsNothing) {
  const auto graph = RecordWork();
  std::this_thread::sleep_for(kAWhile);
  ExpectOutput(0);
  Launch(*graph);
  ExpectOutput(kFirst + 2);
}

TEST_P(GraphTest, EveryLaunchRepeatsTheRecordedWork) {
  const auto graph = RecordWork();
  for (const float first : {kFirst, kFirst, 100.0F}) {
    SetAll(input_, first);
    SetAll(output_, 0);
    Launch(*graph);
    ExpectOutput(first + 2);
  }
}

TEST_P(GraphTest, LaunchesRunInStreamOrder) {
  const auto graph = RecordWork();
  const auto gate = device().CreateGate();
  gate->Arm(stream());
  graph->Launch(stream());
  std::this_thread::sleep_for(kAWhile);
  ExpectOutput(0);
  gate->Release();
  Finish(stream());
  ExpectOutput(kFirst + 2);
}

TEST_P(GraphTest, RecordsOtherStreamsThatWaitForItsEvents) {
  const auto side = device().CreateStream();
  const auto forked = device().CreateEvent();
  const auto joined = device().CreateEvent();
  const auto graph = device().Record([&](Stream& stream) {
    stream.Record(*forked);
    side->Wait(*forked);
    EnqueueWork(*side);
    side->Record(*joined);
    stream.Wait(*joined);
  });
  ExpectOutput(0);
  Launch(*graph);
  ExpectOutput(kFirst + 2);
}

// Whether the caller failed or what it enqueued cannot be recorded. A launch that follows shows
// whether CUDA still remembers the failure.
TEST_P(GraphTest, AFailedRecordingLeavesNothingBehind) {
  const std::vector<std::function<void(Stream&)>> failures = {
      [](Stream&) { throw Error("no such file"); },
      [](Stream& stream) { stream.Synchronize(kPatience, "waiting in a recording"); },
      [&](Stream& stream) {
        EnqueueWork(stream);
        stream.Synchronize(kPatience, "waiting in a recording");
      }};
  for (const auto& failure : failures) {
    EXPECT_THROW(device().Record(failure), Error);
    SetAll(output_, 0);
    EnqueueWork(stream());
    Finish(stream());
    ExpectOutput(kFirst + 2);
    Launch(*RecordWork());
  }
}

}  // namespace
}  // namespace overlapbench
