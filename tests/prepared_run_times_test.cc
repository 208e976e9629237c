// Prepared runs: when each lane and each step ran, where the host waits, and how endless
// waits end.
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "fixtures/prepared_run.h"
#include "prepared_runs.h"

namespace overlapbench {
namespace {

using std::chrono_literals::operator""ms;

// Longer than one delay that another process made late, shorter than two in a row.
constexpr double kTooLong_ms = 1.75 * kDelay_ms;

INSTANTIATE_ON_EACH_BACKEND(PreparedRunTest);

// ---- Times

TEST_P(PreparedRunTest, LanesRunSideBySide) {
  run_.timed = Timed::kLanes;
  for (const char* lane : {"a", "b", "c"}) schedule().Add(AddLane(lane), Delay(lane));
  PrepareAndRun();
  for (const std::size_t lane : {0, 1, 2}) {
    EXPECT_GE(LaneTimes(lane).own_ms(), kDelay_ms);
    EXPECT_LT(LaneTimes(lane).end_ms, kTooLong_ms);
  }
}

TEST_P(PreparedRunTest, AStepStartsWhenAllItsPrerequisitesHaveEnded) {
  run_.timed = Timed::kSteps;
  const auto [a, b] = AddTwoLanes();
  const std::size_t c = AddLane("c");
  const std::size_t first = schedule().Add(a, Delay("1"));
  const std::size_t second = schedule().Add(b, Delay("2"), {.after = {first}});
  const std::size_t third = schedule().Add(c, Delay("3", 1ms));
  const std::size_t fourth = schedule().Add(c, Delay("4", 1ms), {.after = {third, second}});
  PrepareAndRun();
  EXPECT_GE(StepTimes(second).begin_ms, StepTimes(first).end_ms);
  EXPECT_GE(StepTimes(fourth).begin_ms, StepTimes(second).end_ms);
  EXPECT_LT(StepTimes(third).end_ms, StepTimes(first).end_ms);
  EXPECT_GE(LaneTimes(c).end_ms, 2 * kDelay_ms);
}

TEST_P(PreparedRunTest, EachStepIsTimedSeparately) {
  run_.timed = Timed::kSteps;
  const auto [a, b] = AddTwoLanes();
  const std::size_t first = schedule().Add(a, Delay("1", 5ms));
  const std::size_t second = schedule().Add(a, Delay("2"));
  const std::size_t third = schedule().Add(b, Delay("3", 5ms), {.after = {second}});
  PrepareAndRun();
  EXPECT_GE(StepTimes(first).own_ms(), 5);
  EXPECT_LT(StepTimes(first).own_ms(), kDelay_ms);
  EXPECT_GE(StepTimes(second).own_ms(), kDelay_ms);
  EXPECT_GE(StepTimes(second).begin_ms, StepTimes(first).end_ms);
  EXPECT_DOUBLE_EQ(StepTimes(second).end_ms, LaneTimes(a).end_ms);
  // The lane was open before, but the step's time is without its wait.
  EXPECT_LT(LaneTimes(b).begin_ms, kDelay_ms);
  EXPECT_GE(StepTimes(third).begin_ms, kDelay_ms);
  EXPECT_LT(StepTimes(third).own_ms(), kDelay_ms);
}

TEST_P(PreparedRunTest, TimesAreDividedByTheBatchSize) {
  constexpr int kTimes = 5;
  run_.timed = Timed::kSteps;
  const std::size_t lane = AddLane("a");
  const std::size_t first = schedule().Add(lane, Delay("1", kDelay / 4));
  const std::size_t second = schedule().Add(lane, Delay("2"));
  PrepareAndRun(kTimes);
  EXPECT_GE(LaneTimes(lane).own_ms(), kDelay_ms + kDelay_ms / 4);
  EXPECT_LT(LaneTimes(lane).end_ms, 2 * kDelay_ms);
  EXPECT_GT(StepTimes(first).own_ms(), 0);
  EXPECT_LT(StepTimes(first).own_ms(), kDelay_ms);
  EXPECT_GE(StepTimes(second).begin_ms, StepTimes(first).end_ms);
  EXPECT_GE(StepTimes(second).own_ms(), kDelay_ms);
  EXPECT_LT(StepTimes(second).own_ms(), kTooLong_ms);
  EXPECT_DOUBLE_EQ(StepTimes(second).end_ms, LaneTimes(lane).end_ms);
}

TEST_P(PreparedRunTest, EnqueueTimesArePerLaneAndDividedByTheBatchSize) {
  constexpr int kTimes = 3;
  const auto sleep = [](Stream&) { std::this_thread::sleep_for(kDelay); };
  const auto [a, b] = AddTwoLanes();
  const std::size_t c = AddLane("c");
  schedule().Add(a, Fake("1", sleep));
  schedule().Add(b, Fake("2"));
  schedule().Add(a, Fake("3", sleep));
  Prepare();
  for (int i = 0; i < 2; ++i) {  // not of two runs
    Run(kTimes);
    EXPECT_GE(prepared_->enqueue_ms(a), 2 * kDelay_ms);
    EXPECT_LT(prepared_->enqueue_ms(a), 2 * kDelay_ms * kTimes / 2);
    EXPECT_LT(prepared_->enqueue_ms(b), kDelay_ms);
    EXPECT_EQ(prepared_->enqueue_ms(c), 0);
  }
}

// ---- Where the host waits

TEST_P(PreparedRunTest, OnlyRunsWithoutHostWaitsMayBeGated) {
  const std::size_t lane = AddLane("a");
  const std::size_t first = schedule().Add(lane, Fake("1"));
  EXPECT_FALSE(Prepare().needs_open_gate());
  schedule().Add(lane, Fake("2"), {.host_after = {first}});
  EXPECT_TRUE(Prepare().needs_open_gate());
}

TEST_P(PreparedRunTest, WorkThatMayWaitWhileItIsEnqueuedNeedsAnOpenGate) {
  schedule().Add(AddLane("a"), Fake("1"));
  behaviours_["1"].enqueue_waits = true;
  EXPECT_TRUE(Prepare().needs_open_gate());
}

TEST_P(PreparedRunTest, WorkOnAHostThreadNeedsAnOpenGate) {
  schedule().Add(AddLane("a", true), Fake("1"));
  EXPECT_TRUE(Prepare().needs_open_gate());
}

TEST_P(PreparedRunTest, AHostWaitDelaysLaterWorkAndIsNotEnqueueTime) {
  const auto [a, b] = AddTwoLanes();
  const std::size_t first = schedule().Add(a, Delay("1"));
  schedule().Add(a, Fake("2"), {.host_after = {first}});
  schedule().Add(b, Fake("3"));
  Prepare();
  const auto started = std::chrono::steady_clock::now();
  std::vector<std::chrono::steady_clock::duration> enqueued;
  for (const char* name : {"2", "3"}) {
    behaviours_[name].enqueue = [&](Stream&) {
      enqueued.push_back(std::chrono::steady_clock::now() - started);
    };
  }
  Run();
  ASSERT_EQ(enqueued.size(), 2U);
  for (const auto& after : enqueued) EXPECT_GE(after, kDelay);
  EXPECT_LT(prepared_->enqueue_ms(a), kDelay_ms / 2);
  EXPECT_LT(prepared_->enqueue_ms(b), kDelay_ms / 2);
}

// The host waits for the host lane's step, the device's stream could not.
TEST_P(PreparedRunTest, ADeviceLaneWaitsForAHostThread) {
  const std::size_t host = AddLane("host", true);
  const std::size_t device = AddLane("device");
  const std::size_t made = schedule().Add(host, Sleep("make"));
  const std::size_t next = schedule().Add(host, Sleep("next"));
  schedule().Add(device, Fake("use", [&](Stream&) { EXPECT_EQ(host_log_, Log{"make ends"}); }),
                 {.after = {made}});
  schedule().Add(device, Fake("last"), {.after = {next}});
  PrepareAndRun();
  EXPECT_EQ(host_log_, (Log{"make ends", "next ends"}));
  EXPECT_EQ(log_.back(), "B waits for A") << "the fork stream waits for the device's lane alone";
}

TEST_P(PreparedRunTest, AHostThreadWaitsForADeviceLane) {
  run_.timed = Timed::kSteps;
  const std::size_t device = AddLane("device");
  const std::size_t host = AddLane("host", true);
  const std::size_t used = schedule().Add(device, Delay("use"));
  const auto started = std::chrono::steady_clock::now();
  const std::size_t made = schedule().Add(
      host,
      Fake("make", [&](Stream&) { EXPECT_GE(std::chrono::steady_clock::now() - started, kDelay); }),
      {.after = {used}});
  PrepareAndRun();
  EXPECT_GE(StepTimes(used).own_ms(), kDelay_ms);
  // A host thread's clock is not the device's.
  EXPECT_EQ(LaneTimes(host).end_ms, 0);
  EXPECT_EQ(StepTimes(made).end_ms, 0);
}

TEST_P(PreparedRunTest, ARunEndsWhenItsHostThreadsHaveEnded) {
  schedule().Add(AddLane("host", true), Sleep("make"));
  schedule().Add(AddLane("device"), Fake("use"));
  PrepareAndRun();
  EXPECT_EQ(host_log_, Log{"make ends"});
}

TEST_P(PreparedRunTest, AFailureOfAHostThreadFailsTheRun) {
  schedule().Add(AddLane("host", true), Fake("make", [](Stream& stream) {
                   stream.Enqueue([] { throw Error("no more data"); });
                 }));
  Prepare();
  EXPECT_EQ(Thrown<Error>([&] { Run(); }), "no more data");
}

// ---- Waits that do not end

TEST_P(PreparedRunTest, AWaitOfTheHostEndsWithTheTimeout) {
  const std::size_t lane = AddLane("a");
  const std::size_t first = schedule().Add(lane, Delay("slow", 500ms));
  schedule().Add(lane, Fake("2"), {.host_after = {first}});
  Prepare();
  {
    const ShortTimeout timeout(50ms);
    EXPECT_EQ(Thrown<FatalError>([&] { Run(); }),
              "step 'slow' of run 'run' did not finish within 0.05 s");
  }
  prepared_->stream(lane).Synchronize(kPatience, "the delay");
}

TEST_P(PreparedRunTest, AWaitForALaneEndsWithTheTimeout) {
  const std::size_t lane = AddLane("a");
  schedule().Add(lane, Delay("slow", 500ms));
  Prepare().EnqueueOnce();
  {
    const ShortTimeout timeout(50ms);
    EXPECT_EQ(Thrown<FatalError>([&] { prepared_->AwaitLane(lane, " in its first run"); }),
              "the stream a in its first run did not finish within 0.05 s");
  }
  prepared_->AwaitLane(lane);
}

// It ends long before the timeout, and before the work does.
TEST_P(PreparedRunTest, AWaitOfTheHostEndsWhenALinkBreaks) {
  const std::size_t lane = AddLane("a");
  const std::size_t first = schedule().Add(lane, Delay("slow", 1500ms));
  schedule().Add(lane, Fake("2"), {.host_after = {first}});
  Prepare();
  const auto started = std::chrono::steady_clock::now();
  {
    const TestLink link([] { return "the link is down"; });
    EXPECT_EQ(Thrown<FatalError>([&] { Run(); }), "the link is down");
  }
  EXPECT_LT(std::chrono::steady_clock::now() - started, 1200ms);
  prepared_->stream(lane).Synchronize(kPatience, "the delay");
}

TEST_P(PreparedRunTest, AWaitForALaneEndsWhenALinkBreaks) {
  const std::size_t lane = AddLane("a");
  schedule().Add(lane, Delay("slow", 1500ms));
  Prepare().EnqueueOnce();
  const auto started = std::chrono::steady_clock::now();
  {
    const TestLink link([] { return "the link is down"; });
    EXPECT_EQ(Thrown<FatalError>([&] { prepared_->AwaitLane(lane); }), "the link is down");
  }
  EXPECT_LT(std::chrono::steady_clock::now() - started, 1200ms);
  prepared_->AwaitLane(lane);
}

// A wait gives up only after a look that began after its deadline.
TEST_P(PreparedRunTest, WorkThatEndsDuringALinkCheckIsNotLate) {
  const std::size_t lane = AddLane("a");
  schedule().Add(lane, Delay("slow", 80ms));
  Prepare().EnqueueOnce();
  const TestLink link([] {
    std::this_thread::sleep_for(200ms);
    return "";
  });
  const ShortTimeout timeout(50ms);
  EXPECT_EQ(Thrown<Error>([&] { prepared_->AwaitLane(lane); }), "nothing");
}

}  // namespace
}  // namespace overlapbench
