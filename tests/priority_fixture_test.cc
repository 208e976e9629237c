// What a row of Priority reports, from groups whose truth is known: counters, and what it says of
// itself.
#include "fixtures/priority_fixture.h"

#include <memory>
#include <utility>
#include <vector>

#include "recording_device.h"
#include "reporting.h"

namespace overlapbench {
namespace {

class PriorityFixtureTest : public ReportingTest<PriorityFixture> {
 protected:
  PriorityFixtureTest() {
    has_comm_ = true;
    comm_side_ = Side::kCompute;
    settings_ = {{"priority", "high"}};
  }
  // Work of 1 ms and a load of 8 ms alone. Beside the load the work takes 6 ms, and `work_ms` with
  // the row's priority, from 0.5 ms on.
  static Group Prioritized(double work_ms) {
    return {Took(1), Took(8), Took(6, 9), Ran({0.5, 0.5 + work_ms}, {0, 10})};
  }
};

TEST_F(PriorityFixtureTest, TellsWhatPriorityGainsAndWhatItCostsTheLoad) {
  const Row row = Report(Prioritized(2));
  EXPECT_EQ(row.fault, "");
  EXPECT_EQ(row.finding, "");
  EXPECT_DOUBLE_EQ(row.counters.at("latency_alone_ms"), 1);
  EXPECT_DOUBLE_EQ(row.counters.at("latency_equal_ms"), 6);
  EXPECT_DOUBLE_EQ(row.counters.at("latency_ms"), 2);
  EXPECT_DOUBLE_EQ(row.counters.at("gain"), 3);
  EXPECT_DOUBLE_EQ(row.counters.at("work_slowdown_equal"), 6);
  EXPECT_DOUBLE_EQ(row.counters.at("work_slowdown"), 2);
  EXPECT_DOUBLE_EQ(row.counters.at("load_alone_ms"), 8);
  EXPECT_DOUBLE_EQ(row.counters.at("load_slowdown_equal"), 1.125);
  EXPECT_DOUBLE_EQ(row.counters.at("load_slowdown"), 1.25);
}

TEST_F(PriorityFixtureTest, AControlWithoutGainIsLabelled) {
  settings_["priority"] = "equal";
  const Row row = Report(Prioritized(6));
  EXPECT_EQ(row.fault, "");
  EXPECT_EQ(row.finding, "control: equal priorities, no gain");
}

TEST_F(PriorityFixtureTest, AControlThatShowsAGainOrALossIsAFault) {
  settings_["priority"] = "equal";
  const Row gain = Report(Prioritized(4));
  EXPECT_EQ(gain.fault, "the negative control shows a gain of 1.5");
  EXPECT_EQ(gain.finding, "");
  EXPECT_EQ(Report(Prioritized(12)).fault, "the negative control shows a gain of 0.5");
}

TEST_F(PriorityFixtureTest, BlocksThatRunAreNotPreempted) {
  const Row row = Report(Prioritized(6));
  EXPECT_EQ(row.fault, "");
  EXPECT_EQ(row.finding, "no gain: blocks that run are not preempted");
}

TEST_F(PriorityFixtureTest, CopiesDoNotHeedPriorityOnEitherSide) {
  comm_side_ = Side::kMemory;
  EXPECT_EQ(Report(Prioritized(6)).finding, "no gain: copies do not heed priority");
  comm_side_ = Side::kCompute;
  comp_side_ = Side::kMemory;
  EXPECT_EQ(Report(Prioritized(6)).finding, "no gain: copies do not heed priority");
}

// Within a tenth of 1.
TEST_F(PriorityFixtureTest, ASmallGainIsNone) {
  EXPECT_EQ(Report(Prioritized(6 / 1.09)).finding, "no gain: blocks that run are not preempted");
  EXPECT_EQ(Report(Prioritized(6 / 1.11)).finding, "");
}

// A device whose streams have three priorities, and which remembers those it was asked for.
class PrioritizingDevice : public RecordingDevice {
 public:
  using RecordingDevice::RecordingDevice;
  [[nodiscard]] int priorities() const override { return 3; }
  std::unique_ptr<Stream> CreateStream(int priority) override {
    asked_.push_back(priority);
    return RecordingDevice::CreateStream(priority);
  }
  [[nodiscard]] const std::vector<int>& asked() const { return asked_; }

 private:
  std::vector<int> asked_;
};

// Whatever is measured beside it has a stream of the lowest.
TEST(PriorityScene, GivesTheLastRunsWorkTheHighestPriorityUnlessItIsAControl) {
  const Behaviour behaviour;
  const WorkloadSpec work = FakeSpec("Work", Side::kCompute, behaviour);
  for (const auto& [priority, expected] : {std::pair{"high", 2}, std::pair{"equal", 0}}) {
    PrioritizingDevice device(OpenHostDevice(1));
    Configuration configuration;
    configuration.comp = configuration.comm = &work;
    configuration.settings.Set(PriorityFixture::Axes(Backend::kHost).front(), priority);
    const Scene scene = PriorityFixture::MakeScene({device, TestRanks()}, configuration);
    EXPECT_EQ(device.asked(), (std::vector<int>{0, 0, expected}));
    ASSERT_EQ(scene.runs.size(), 4U);
    EXPECT_EQ(scene.runs[2].lanes[0].stream, scene.streams[0].get());
    EXPECT_EQ(scene.runs[3].lanes[0].stream, scene.streams[2].get());
    EXPECT_EQ(scene.runs[3].lanes[1].stream, scene.streams[1].get());
    for (const std::size_t run : {2, 3}) EXPECT_EQ(scene.runs[run].leader, 1U);
  }
}

}  // namespace
}  // namespace overlapbench
