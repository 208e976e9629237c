// Samples: whether one includes the host's time to enqueue; which gate holds what; and a failure or
// a timeout of one rank affects all.
//
// Enqueueing sleeps here, for far more than anything else in a sample takes.
#include "fixtures/sampler.h"

#include <fmt/core.h>

#include <algorithm>
#include <deque>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "backends.h"
#include "device/host/host_stream.h"
#include "fake_workload.h"
#include "test_ranks.h"
#include "tests/forwarding_device.h"

namespace overlapbench {
namespace {

using std::chrono_literals::operator""ms;

constexpr auto kLong = 180ms;
constexpr double kLong_ms = kLong.count();
constexpr double kShort_ms = 60;
constexpr SamplerOptions kGate = {true, false, 1};
constexpr SamplerOptions kNoGate = {false, false, 1};

class SamplerTest : public RanksOnEachBackend {
 protected:
  using Run = overlapbench::Run;  // not GoogleTest's

  void SetUp() override {
    RanksOnEachBackend::SetUp();
    if (IsSkipped()) return;
    LoadDelay(machine());
    slow_.enqueue = [](Stream&) { std::this_thread::sleep_for(kLong); };
  }

  // A run of one lane for each behaviour.
  Run RunOf(const std::vector<const Behaviour*>& behaviours, bool gated) {
    Run run{.name = "run", .gated = gated};
    for (const Behaviour* behaviour : behaviours) {
      const std::string lane = run.schedule.lanes().empty() ? "COMP" : "COMM";
      run.schedule.Add(run.schedule.AddLane({lane}),
                       FakeWork(lane, WorkClass::kCompute, *behaviour));
    }
    return run;
  }
  Run DelayedRun(std::chrono::milliseconds delay, bool gated = true) {
    Run run{.name = "run", .gated = gated};
    run.schedule.Add(run.schedule.AddLane({"COMP"}), DelayWork(machine(), "delay", delay));
    return run;
  }
  // `run` on this machine.
  PreparedRun& Prepare(const Run& run) {
    runs_.push_back(run);
    for (const Work& work : run.schedule.works()) workloads_[work] = work->make();
    prepared_.push_back(
        std::make_unique<PreparedRun>(runs_.back(), machine(), *streams(), workloads_));
    return *prepared_.back();
  }
  Sample Take(const Run& run, SamplerOptions options) {
    return Sampler(machine(), options).Take(Prepare(run));
  }
  // The text of the FatalError that `action` throws.
  template <class Action>
  static std::string Fatal(const Action& action) {
    try {
      action();
    } catch (const FatalError& error) {
      return error.what();
    }
    return "nothing";
  }
  static bool OnLastRank() { return TestRanks().rank() == TestRanks().size() - 1; }
  static std::string LastRank() {
    const int size = TestRanks().size();
    return size == 1 ? "" : fmt::format("rank {}: ", size - 1);
  }

  Behaviour quick_;
  Behaviour slow_;

 private:
  std::unique_ptr<LaneStreams>& streams() {
    if (streams_ == nullptr) streams_ = std::make_unique<LaneStreams>(machine().device);
    return streams_;
  }

  std::deque<Run> runs_;
  Workloads workloads_;
  std::unique_ptr<LaneStreams> streams_;
  std::vector<std::unique_ptr<PreparedRun>> prepared_;
};
INSTANTIATE_ON_EACH_BACKEND(SamplerTest);

TEST_P(SamplerTest, AGatedRunReportsItsEnqueueTimeSeparately) {
  const Sample sample = Take(RunOf({&slow_}, true), kGate);
  EXPECT_LT(sample.total_ms, kShort_ms);
  EXPECT_GE(sample.enqueue_ms[0], kLong_ms);
}

TEST_P(SamplerTest, AnUngatedRunIncludesItsEnqueueTime) {
  const Sample sample = Take(RunOf({&slow_}, false), kGate);
  EXPECT_GE(sample.total_ms, kLong_ms);
  EXPECT_GE(sample.enqueue_ms[0], kLong_ms);
}

TEST_P(SamplerTest, WithoutAGateAllRunsAreUngated) {
  EXPECT_GE(Take(RunOf({&slow_}, true), kNoGate).total_ms, kLong_ms);
}

TEST_P(SamplerTest, ARunWithHostWaitsIsUngated) {
  Behaviour waiting = slow_;
  waiting.enqueue_waits = true;
  EXPECT_GE(Take(RunOf({&waiting}, true), kGate).total_ms, kLong_ms);
  Run run = RunOf({&quick_, &slow_}, true);
  run.schedule.Add(1, run.schedule.steps()[0].work, {.host_after = {0}});
  EXPECT_GE(Take(run, kGate).total_ms, kLong_ms);
}

TEST_P(SamplerTest, EachLaneHasItsOwnEnqueueTime) {
  for (const bool gated : {true, false}) {
    const Sample sample = Take(RunOf({&quick_, &slow_}, gated), kGate);
    EXPECT_LT(sample.enqueue_ms[0], kShort_ms);
    EXPECT_GE(sample.enqueue_ms[1], kLong_ms);
  }
}

TEST_P(SamplerTest, TheSlowestRanksEnqueueTimeCounts) {
  Behaviour slow_on_one;
  slow_on_one.enqueue = [](Stream&) {
    if (OnLastRank()) std::this_thread::sleep_for(kLong);
  };
  EXPECT_GE(Take(RunOf({&slow_on_one}, true), kGate).enqueue_ms[0], kLong_ms);
}

// Lanes, steps and all, to the bit.
TEST_P(SamplerTest, TheSlowestRanksTimesAreTheSampleOfAllRanks) {
  Run run = DelayedRun(OnLastRank() ? kLong : 1ms);
  run.timed = Timed::kSteps;
  run.schedule.Add(0, run.schedule.steps()[0].work);
  const Sample sample = Take(run, kGate);
  ASSERT_EQ(sample.lanes.size(), 1U);
  ASSERT_EQ(sample.steps.size(), 2U);
  EXPECT_GE(sample.total_ms, 2 * kLong_ms);
  if (TestRanks().size() == 1)
    EXPECT_EQ(sample.least_ms, sample.total_ms);
  else
    EXPECT_LT(sample.least_ms, kLong_ms);
  EXPECT_GE(sample.lanes[0].own_ms(), 2 * kLong_ms);
  EXPECT_GE(sample.steps[0].end_ms, kLong_ms);
  EXPECT_GE(sample.steps[1].end_ms, 2 * kLong_ms);
  for (const double time_ms :
       {sample.total_ms, sample.least_ms, sample.lanes[0].begin_ms, sample.lanes[0].end_ms,
        sample.steps[0].end_ms, sample.steps[1].begin_ms}) {
    const double highest_ms = TestRanks().Max(time_ms, "the test");
    EXPECT_EQ(highest_ms, -TestRanks().Max(-time_ms, "the test"));
  }
}

TEST_P(SamplerTest, LanesAndStepsAreTimedOnRequestOnly) {
  Run run = DelayedRun(1ms);
  for (const Timed timed : {Timed::kTotal, Timed::kLanes, Timed::kSteps}) {
    run.timed = timed;
    const Sample sample = Take(run, kGate);
    EXPECT_EQ(sample.lanes.size(), timed >= Timed::kLanes ? 1U : 0U);
    EXPECT_EQ(sample.steps.size(), timed == Timed::kSteps ? 1U : 0U);
    EXPECT_EQ(sample.enqueue_ms.size(), 1U);
    EXPECT_GE(sample.total_ms, 1);
  }
}

// No rank takes longer than the sample, and one takes as long.
TEST_P(SamplerTest, EachRanksTimeIsKeptOnRequest) {
  EXPECT_TRUE(Take(RunOf({&slow_}, false), kNoGate).ranks.empty());
  const Sample sample = Take(RunOf({&slow_}, false), {false, false, 1, true});
  ASSERT_EQ(sample.ranks.size(), static_cast<std::size_t>(TestRanks().size()));
  double most_ms = 0;
  for (const RankSample& rank : sample.ranks) {
    EXPECT_GE(rank.time_ms, kLong_ms);
    most_ms = std::max(most_ms, rank.time_ms);
  }
  EXPECT_DOUBLE_EQ(most_ms, sample.total_ms);
}

TEST_P(SamplerTest, TheSkewIsBetweenTheFirstAndTheLastStart) {
  const Sample sample = Take(RunOf({&quick_}, true), {true, false, 1, true});
  const auto [first, last] =
      std::ranges::minmax_element(sample.ranks, {}, &RankSample::released_at_ms);
  EXPECT_NEAR(sample.skew_us, (last->released_at_ms - first->released_at_ms) * 1000, 1e-3);
}

// Five in a row take five times as long in all.
TEST_P(SamplerTest, TimesAreDividedByTheBatchSize) {
  constexpr int kBatch = 5;
  for (const bool gated : {true, false}) {
    const Sample sample = Take(RunOf({&slow_}, gated), {true, false, kBatch});
    EXPECT_GE(sample.enqueue_ms[0], kLong_ms);
    EXPECT_LT(sample.enqueue_ms[0], kLong_ms * kBatch / 2);
    if (gated) continue;
    EXPECT_GE(sample.total_ms, kLong_ms);
    EXPECT_LT(sample.total_ms, kLong_ms * kBatch / 2);
  }
}

TEST_P(SamplerTest, TimesOfLanesAndStepsAreDividedByTheBatchSize) {
  constexpr int kBatch = 5;
  Run run = DelayedRun(kLong);
  run.timed = Timed::kSteps;
  const Sample sample = Take(run, {true, false, kBatch});
  for (const TimeSpan& span : {sample.lanes.at(0), sample.steps.at(0)}) {
    EXPECT_GE(span.own_ms(), kLong_ms);
    EXPECT_LT(span.own_ms(), kLong_ms * kBatch / 2);
  }
}

// Nothing is started before all ranks are there.
TEST_P(SamplerTest, AnUngatedRunExcludesTheWaitForALateRank) {
  if (TestRanks().size() == 1) GTEST_SKIP() << "needs a second rank";
  Sampler sampler(machine(), kGate);
  PreparedRun& run = Prepare(RunOf({&quick_}, false));
  if (OnLastRank()) std::this_thread::sleep_for(kLong);
  EXPECT_LT(sampler.Take(run).total_ms, kShort_ms);
}

TEST_P(SamplerTest, ASampleIncludesItsHostThreads) {
  Behaviour making;
  making.enqueue = [](Stream& stream) {
    stream.Enqueue([] { std::this_thread::sleep_for(kLong); });
  };
  Run run = RunOf({&quick_}, true);
  run.timed = Timed::kLanes;
  run.schedule.Add(run.schedule.AddLane({.name = "worker", .on_host = true}),
                   FakeWork("make", WorkClass::kMemory, making));
  const Sample sample = Take(run, kGate);
  EXPECT_GE(sample.total_ms, kLong_ms);
  EXPECT_EQ(sample.lanes.at(1).end_ms, 0);
}

// The cache is flushed before all other samples, but an empty one needs no flush.
TEST_P(SamplerTest, AnEmptySampleHasTheSameLanesAndTakesAlmostNoTime) {
  Run run = RunOf({&slow_, &slow_}, true);
  run.schedule.AddLane({.name = "worker", .on_host = true});
  run.schedule = run.schedule.WithoutSteps();
  Sampler sampler(machine(), {true, true, 1});
  const double empty_ms = sampler.EmptySample_ms(Prepare(run));
  EXPECT_GT(empty_ms, 0);
  EXPECT_LT(empty_ms, kShort_ms);
}

// ---- Gates

// What a sampler does with its gates: which is armed how often, and when it is opened first.
class GateLog {
 public:
  struct Entry {
    int armed = 0;
    std::chrono::steady_clock::time_point opening = {};
    std::chrono::steady_clock::time_point opened = {};
  };
  std::deque<Entry> gates;  // in the order in which they were made

  class Gate : public overlapbench::Gate {
   public:
    Gate(std::unique_ptr<overlapbench::Gate> gate, Entry& entry)
        : gate_(std::move(gate)), entry_(entry) {}
    void Arm(Stream& stream) override {
      ++entry_.armed;
      gate_->Arm(stream);
    }
    void Release() override {
      const auto now = [] { return std::chrono::steady_clock::now(); };
      const bool is_first = entry_.armed > 0 && entry_.opening == decltype(now())();
      if (is_first) entry_.opening = now();
      gate_->Release();
      if (is_first) entry_.opened = now();
    }

   private:
    std::unique_ptr<overlapbench::Gate> gate_;
    Entry& entry_;
  };
};

class GateLoggingDevice : public ForwardingDevice {
 public:
  GateLoggingDevice(std::unique_ptr<Device> device, GateLog& log)
      : ForwardingDevice(std::move(device)), log_(log) {}
  std::unique_ptr<Gate> CreateGate() override {
    return std::make_unique<GateLog::Gate>(ForwardingDevice::CreateGate(),
                                           log_.gates.emplace_back());
  }

 private:
  GateLog& log_;
};

// The sampler's start gate, and the one that holds followers, in a sample of three lanes.
GateLog GatesOf(Backend backend, int ordinal, const std::optional<std::size_t>& leader) {
  GateLog log;
  GateLoggingDevice device(backend == Backend::kHost ? OpenHostDevice(2) : OpenCudaDevice(ordinal),
                           log);
  const Machine machine{device, TestRanks()};
  const Behaviour quick;
  const Work work = FakeWork("work", WorkClass::kCompute, quick);
  Workloads workloads;
  workloads[work] = work->make();
  Run run{.name = "run"};
  for (const char* lane : {"a", "b", "c"})
    run.schedule.Add(run.schedule.AddLane({.name = lane}), work);
  run.schedule.leader = leader;
  LaneStreams streams(device);
  PreparedRun prepared(run, machine, streams, workloads);
  Sampler(machine, kGate).Take(prepared);
  return log;
}

TEST_P(SamplerTest, AHeldSampleKeepsItsGateClosedAndIsNoLonger) {
  Sampler sampler(machine(), kGate);
  const Sample sample = sampler.Take(Prepare(RunOf({&quick_}, true)), {.hold = kLong});
  EXPECT_LT(sample.total_ms, kShort_ms);
  EXPECT_GE(sampler.moments().met_ms - sampler.moments().enqueue.end_ms, kLong_ms);
}

TEST_P(SamplerTest, AnErrorOfAnotherRankEndsTheHold) {
  if (TestRanks().size() == 1) GTEST_SKIP() << "needs a second rank";
  Behaviour failing;
  failing.enqueue = [](Stream&) {
    if (OnLastRank()) throw Error("no way");
  };
  Sampler sampler(machine(), kGate);
  PreparedRun& run = Prepare(RunOf({&failing}, true));
  const auto started = std::chrono::steady_clock::now();
  EXPECT_EQ(Fatal([&] { sampler.Take(run, {.hold = 10'000ms}); }), LastRank() + "no way");
  EXPECT_LT(std::chrono::steady_clock::now() - started, 5000ms);
}

// Work on none of the suite's streams ends later, and only on one rank.
class BusyDevice : public ForwardingDevice {
 public:
  using ForwardingDevice::ForwardingDevice;
  [[nodiscard]] bool AwaitIdle(std::chrono::milliseconds timeout) override {
    longest_ = timeout;
    std::this_thread::sleep_for(busy_);
    return true;
  }
  std::chrono::milliseconds busy_{};
  std::chrono::milliseconds longest_{};
};

TEST_P(SamplerTest, TheDeviceIsBusyUntilAllWorkOfAllRanksHasEnded) {
  BusyDevice busy(GetParam() == Backend::kHost ? OpenHostDevice(2) : OpenCudaDevice(ordinal()));
  if (OnLastRank()) busy.busy_ = kLong;
  const Machine machine{busy, TestRanks()};
  Sampler sampler(machine, kGate);
  EXPECT_GE(sampler.BusyTime_ms(Prepare(DelayedRun(kLong))), 2 * kLong_ms);
  EXPECT_LT(busy.longest_, TestRanks().timeout() / 2);
}

TEST_P(SamplerTest, FollowersAreHeldUntilTheLeaderHasStarted) {
  const GateLog log = GatesOf(GetParam(), ordinal(), 1);
  ASSERT_EQ(log.gates.size(), 2U);
  EXPECT_EQ(log.gates[0].armed, 1);  // the fork stream's
  EXPECT_EQ(log.gates[1].armed, 2);
  EXPECT_GE(log.gates[1].opening - log.gates[0].opened, kLead);
}

TEST_P(SamplerTest, WithoutALeaderNoLaneIsHeld) {
  const GateLog log = GatesOf(GetParam(), ordinal(), std::nullopt);
  ASSERT_EQ(log.gates.size(), 2U);
  EXPECT_EQ(log.gates[0].armed, 1);
  EXPECT_EQ(log.gates[1].armed, 0);
}

// It has no gate that could hold a follower.
TEST_P(SamplerTest, AnUngatedRunWithALeaderEnds) {
  Run run = RunOf({&quick_, &quick_}, false);
  run.schedule.leader = 1;
  EXPECT_LT(Take(run, kGate).total_ms, kShort_ms);
}

// ---- Failures

// The others have no way of knowing what this rank did not enqueue.
TEST_P(SamplerTest, AFailureOfOneRankWhileEnqueueingEndsTheJob) {
  Behaviour failing;
  failing.enqueue = [](Stream&) {
    if (OnLastRank()) throw Error("the link is down");
  };
  for (const bool gated : {true, false}) {
    try {
      Take(RunOf({&failing}, gated), kGate);
      FAIL() << "the failure went unnoticed";
    } catch (const FatalError& error) {
      EXPECT_EQ(error.what(), LastRank() + "the link is down");
      EXPECT_TRUE(error.known_to_all());
    }
  }
}

// What was enqueued has ended on all ranks, so they can go on.
TEST_P(SamplerTest, AFailureOfOneRanksWorkIsAnErrorOnAll) {
  if (GetParam() != Backend::kHost) GTEST_SKIP() << "a GPU's work throws nothing";
  Behaviour failing;
  failing.enqueue = [](Stream& stream) {
    stream.Enqueue([] {
      if (OnLastRank()) throw Error("the link is down");
    });
  };
  for (const bool gated : {true, false}) {
    try {
      Take(RunOf({&failing}, gated), kGate);
      FAIL() << "the failure went unnoticed";
    } catch (const AgreedError& error) {
      EXPECT_EQ(error.what(), LastRank() + "the link is down");
    }
  }
}

TEST_P(SamplerTest, AFirstRunThatFailsOnOneRankIsAnErrorOnAll) {
  Behaviour failing;
  failing.enqueue = [](Stream&) {
    if (OnLastRank()) throw Error("the link is down");
  };
  try {
    Sampler(machine(), kGate).RunOnce(Prepare(RunOf({&failing}, true)));
    FAIL() << "the failure went unnoticed";
  } catch (const AgreedError& error) {
    EXPECT_EQ(error.what(), LastRank() + "the link is down");
  }
}

// They learn of it long before their own work ends or the timeout expires.
TEST_P(SamplerTest, NobodyWaitsForARankThatFailsInTheFirstRunOrWhileEnqueueing) {
  const auto delay = DelayWork(machine(), "delay", 1500ms)->make();
  Behaviour failing;
  failing.enqueue = [&](Stream& stream) {
    if (OnLastRank()) throw Error("the link is down");
    delay->Enqueue(stream);
  };
  const auto expect_failure = [&](WorkClass work_class, bool is_fatal, const auto& action) {
    Run run{.name = "run"};
    const Work work = FakeWork("work", work_class, failing);
    const std::size_t first = run.schedule.Add(run.schedule.AddLane({"lane"}), work);
    run.schedule.Add(0, work, {.host_after = {first}});
    PreparedRun& prepared = Prepare(run);
    Sampler sampler(machine(), kGate);
    const auto started = std::chrono::steady_clock::now();
    try {
      action(sampler, prepared);
      FAIL() << "the failure went unnoticed";
    } catch (const Error& error) {
      EXPECT_EQ(error.what(), LastRank() + "the link is down");
      EXPECT_EQ(dynamic_cast<const FatalError*>(&error) != nullptr, is_fatal);
    }
    EXPECT_LT(std::chrono::steady_clock::now() - started, 1200ms);
    prepared.stream(0).Synchronize(kPatience, "the delay");
    TestRanks().Barrier("the test");
  };
  const auto run_once = [](Sampler& sampler, PreparedRun& run) { sampler.RunOnce(run); };
  const auto take = [](Sampler& sampler, PreparedRun& run) { sampler.Take(run); };
  expect_failure(WorkClass::kCompute, false, run_once);
  expect_failure(WorkClass::kComm, true, run_once);
  expect_failure(WorkClass::kCompute, true, take);
}

TEST_P(SamplerTest, WorkThatDoesNotEndIsNamed) {
  Sampler sampler(machine(), kGate);
  PreparedRun& run = Prepare(DelayedRun(600ms));
  const std::string prefix = TestRanks().Prefix() + "the stream COMP";
  {
    const ShortTimeout timeout(100ms);
    EXPECT_EQ(Fatal([&] { sampler.RunOnce(run); }),
              prefix + " in its first run did not finish within 0.1 s");
  }
  run.AwaitLane(0);
  // No rank may be late for the next sample.
  TestRanks().Barrier("the test");
  {
    const ShortTimeout timeout(100ms);
    EXPECT_EQ(Fatal([&] { sampler.Take(run); }), prefix + " did not finish within 0.1 s");
  }
  run.AwaitLane(0);
  TestRanks().Barrier("the test");
}

// A sixteenth of the repetitions is a chunk: four here.
TEST_P(SamplerTest, ARepeatedRunIsEnqueuedUpToTwoChunksAhead) {
  std::vector<std::unique_ptr<Event>> ends;
  std::ptrdiff_t most = 0;
  quick_.enqueue = [&](Stream& stream) {
    most =
        std::max(most, std::ranges::count_if(ends, [](const auto& end) { return !end->Done(); }));
    stream.Record(*ends.emplace_back(machine().device.CreateEvent({.timed = false})));
  };
  Run run = DelayedRun(1ms);
  run.schedule.Add(0, FakeWork("end", WorkClass::kCompute, quick_));
  static_cast<void>(Sampler(machine(), kNoGate).Repeat(Prepare(run), 64));
  EXPECT_GT(most, 4);
  EXPECT_LE(most, 8);
}

// No rank waits for a timeout to learn of it, neither in the first run nor in a sample.
TEST_P(SamplerTest, ABrokenLinkEndsEveryWait) {
  Sampler sampler(machine(), kGate);
  PreparedRun& run = Prepare(DelayedRun(1500ms));
  // The link breaks as soon as the ranks have met.
  const auto waits = [] {
    return TestRanks().progress().Where().find("waiting for the stream COMP") !=
               std::string::npos ||
           TestRanks().progress().Where().find("first run") != std::string::npos;
  };
  const TestLink link([&] { return waits() ? "the link is down" : ""; });
  const std::string down = TestRanks().Prefix() + "the link is down";
  for (const bool first : {true, false}) {
    const auto started = std::chrono::steady_clock::now();
    const auto wait = [&] {
      if (first) return sampler.RunOnce(run);
      sampler.Take(run);
    };
    EXPECT_EQ(Fatal(wait), down);
    EXPECT_LT(std::chrono::steady_clock::now() - started, 1200ms);
    run.stream(0).Synchronize(kPatience, "the delay");
  }
  TestRanks().Barrier("the test");
}

}  // namespace
}  // namespace overlapbench
