// A session's groups of samples: their order, what the gate keeps out of them, and the warm-up.
#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "sessions.h"
#include "tests/forwarding_device.h"

namespace overlapbench {
namespace {

using std::chrono_literals::operator""ms;

// What happens on the host outside of a sample, and far more than an empty sample takes.
constexpr auto kLong = 180ms;
constexpr double kShort_ms = 60;

class EventCountingDevice : public ForwardingDevice {
 public:
  using ForwardingDevice::ForwardingDevice;
  std::unique_ptr<Event> CreateEvent(const EventOptions& options) override {
    ++created_;
    return ForwardingDevice::CreateEvent(options);
  }
  [[nodiscard]] int created() const { return created_; }

 private:
  int created_ = 0;
};

class SessionSamplesTest : public SessionTest {};
INSTANTIATE_ON_EACH_BACKEND(SessionSamplesTest);

// C M T and T M C in turn. In T the communication is enqueued first.
TEST_P(SessionSamplesTest, InterleavesSoloAndOverlappedSamples) {
  std::string order;
  work_.enqueue = [&](Stream&) { order += 'C'; };
  talk_.enqueue = [&](Stream&) { order += 'M'; };
  const auto session = OpenPair();
  order.clear();
  for (int i = 0; i < 2; ++i) session->Measure();
  const std::string forward = "CMMC";
  const std::string backward = "MCMC";
  EXPECT_TRUE(order == forward + backward || order == backward + forward) << order;
}

TEST_P(SessionSamplesTest, StreamsTwentyBackToBack) {
  int runs = 0;
  work_.enqueue = [&](Stream&) { ++runs; };
  const auto session = Open([this] { return Pair(); }, kGate, {{"cadence", "streaming"}});
  runs = 0;
  session->Measure();  // alone and overlapped
  EXPECT_EQ(runs, 40);
}

TEST_P(SessionSamplesTest, StreamsAtMostAThousandStepsOrOnce) {
  int runs = 0;
  work_.enqueue = [&](Stream&) { ++runs; };
  for (const auto& [steps, streamed] : {std::pair(300, 900), {1001, 1001}}) {
    const auto many = [&, steps = steps] {
      Run run{.name = "many"};
      const std::size_t lane = run.schedule.AddLane({"COMP"});
      for (int i = 0; i < steps; ++i) run.schedule.Add(lane, comp());
      return Runs{run};
    };
    const auto session = Open(many, kGate, {{"cadence", "streaming"}});
    runs = 0;
    session->Measure();
    EXPECT_EQ(runs, streamed);
  }
}

TEST_P(SessionSamplesTest, TheGateKeepsEnqueueingOutOfTheSample) {
  work_.enqueue = [](Stream&) {
    if (OnLastRank()) std::this_thread::sleep_for(kLong);
  };
  EXPECT_LT(OpenPair()->Measure().front().total_ms, kShort_ms);
  EXPECT_GE(OpenPair(kNoGate)->Measure().front().total_ms, kLong.count());
}

// As does a call that finds a launch queue full.
TEST_P(SessionSamplesTest, TheHostTakesNoPartInGatedSamplesOfAGpu) {
  const bool on_host = GetParam() == Backend::kHost;
  EXPECT_EQ(OpenPair(kGate)->host_takes_part(), on_host);
  EXPECT_TRUE(OpenPair(kNoGate)->host_takes_part());
  const auto one_ungated = [this] {
    Runs runs = Pair();
    runs.front().gated = false;
    return runs;
  };
  EXPECT_TRUE(Open(one_ungated)->host_takes_part());
}

TEST_P(SessionSamplesTest, AnEnqueueThatWaitsForTheWorkBehindTheGateLeavesTheRowUngated) {
  int runs = 0;
  work_.enqueue = [&](Stream& stream) {
    ++runs;
    if (OnLastRank()) stream.Synchronize(kPatience, "waiting in Enqueue");
  };
  const ShortTimeout timeout(4000ms);
  const auto session = OpenPair();
  EXPECT_EQ(session->no_gate(),
            "not gated, so times include launches: enqueueing run 'comp' waits for the work behind "
            "the start gate");
  runs = 0;
  EXPECT_LT(session->Measure().back().total_ms, 1000);
  EXPECT_EQ(runs, 2) << "a sample was repeated";
}

// Where a user's callable waits, its row is an error that names it, soon and on all ranks.
TEST_P(SessionSamplesTest, AnEnqueueWithAdviceThatWaitsBehindTheGateIsAnErrorWithinThreeSeconds) {
  bool waits = true;
  talk_.enqueue = [&](Stream& stream) {
    if (waits && OnLastRank()) stream.Synchronize(kPatience, "waiting in Enqueue");
  };
  work_.gate_advice = talk_.gate_advice = "do not wait";
  const auto error_of = [](const std::function<void()>& action) -> std::string {
    const auto begin = std::chrono::steady_clock::now();
    try {
      action();
    } catch (const AgreedError& error) {
      EXPECT_LT(std::chrono::steady_clock::now() - begin, 3000ms);
      return error.what();
    }
    return "no error";
  };
  const std::string expected =
      "'comm' waits for the device behind the closed start gate; do not wait";
  const ShortTimeout timeout(60000ms);
  EXPECT_EQ(error_of([&] { Open([this] { return Pair(); }); }), expected);
  waits = false;
  const auto session = OpenPair();
  waits = true;
  EXPECT_EQ(error_of([&] { session->Measure(); }), expected) << "after the warm-up";
}

TEST_P(SessionSamplesTest, AnEnqueueThatIsKnownToWaitIsNotTriedBehindTheGate) {
  work_.enqueue = [](Stream& stream) { stream.Synchronize(kPatience, "waiting in Enqueue"); };
  EXPECT_EQ(OpenPair(kNoGate)->no_gate(), "");
  work_.enqueue_waits = true;
  EXPECT_EQ(OpenPair()->no_gate(), "");
}

// The queue of the last rank has room for five operations.
TEST_P(SessionSamplesTest, StreamsAsManyAsFitBehindTheGate) {
  std::vector<std::unique_ptr<Event>> queued;
  work_.enqueue = [&](Stream& stream) {
    std::erase_if(queued, [](const auto& event) { return event->Done(); });
    if (queued.size() == 5) stream.Synchronize(kPatience, "a full queue");
    if (OnLastRank()) stream.Record(*queued.emplace_back(device().CreateEvent({.timed = false})));
  };
  const ShortTimeout timeout(4000ms);
  const auto session =
      Open([this] { return Runs{SoloRun(comp())}; }, kGate, {{"cadence", "streaming"}});
  EXPECT_EQ(session->no_gate(), "");
  EXPECT_EQ(session->batch(), 5);
}

// A queue of an H100 takes 1,021 operations (driver 580).
TEST_P(SessionSamplesTest, WhatFillsALaunchQueueIsNotGated) {
  if (GetParam() == Backend::kHost) GTEST_SKIP() << "the host backend's queues have no limit";
  Buffer buffer = device().Allocate(64, MemoryKind::kDevice);
  auto* const bytes = static_cast<std::byte*>(buffer.data());
  work_.enqueue = [&](Stream& stream) { stream.Copy(bytes, bytes + 32, 32); };
  const auto copies = [this](int count) {
    Run run{.name = "copies"};
    const std::size_t lane = run.schedule.AddLane({"COMP"});
    for (int i = 0; i < count; ++i) run.schedule.Add(lane, comp());
    return Runs{run};
  };
  EXPECT_EQ(Open([&] { return copies(500); })->no_gate(), "");
  EXPECT_NE(Open([&] { return copies(2500); })->no_gate(), "");
}

// A row that was gated so far has no further samples that could be compared with its others.
TEST_P(SessionSamplesTest, AWaitBehindTheGateAfterTheWarmUpIsAnErrorOnAll) {
  bool waits = false;
  work_.enqueue = [&](Stream& stream) {
    if (waits && OnLastRank()) stream.Synchronize(kPatience, "waiting in Enqueue");
  };
  const ShortTimeout timeout(4000ms);
  const auto session = OpenPair();
  waits = true;
  try {
    session->Measure();
    FAIL() << "the wait went unnoticed";
  } catch (const AgreedError& error) {
    EXPECT_NE(std::string(error.what()).find("--gate=off"), std::string::npos) << error.what();
  }
}

TEST_P(SessionSamplesTest, AnEmptySampleContainsNoWork) {
  work_.enqueue = [](Stream&) { std::this_thread::sleep_for(kLong); };
  EXPECT_LT(OpenPair()->empty_sample_ms(), kShort_ms);
  const double ungated_ms = OpenPair(kNoGate)->empty_sample_ms();
  EXPECT_GT(ungated_ms, 0);  // the host enqueues meanwhile
  EXPECT_LT(ungated_ms, kShort_ms);
}

// Its events are those that are made after everything has been verified.
TEST_P(SessionSamplesTest, AnEmptySampleHasTheRowsLanes) {
  EventCountingDevice counting(GetParam() == Backend::kHost ? OpenHostDevice(2)
                                                            : OpenCudaDevice(ordinal()));
  int before = 0;
  work_.fault = talk_.fault = [&] { return before = counting.created(), ""; };
  Session session({counting, TestRanks()},
                  {.name = "Family/Row",
                   .settings = Settings().With("cache", "warm").With("cadence", "isolated"),
                   .runs = [this](const Settings&) { return Pair(); },
                   .report = {}});
  session.SetUp(kGate);
  session.WarmUp();
  EXPECT_EQ(counting.created() - before, 2) << "an end of each of two lanes";
}

TEST_P(SessionSamplesTest, AGroupsWallTimeCoversAllItsRuns) {
  work_.enqueue = [](Stream&) {
    if (OnLastRank()) std::this_thread::sleep_for(kLong);
  };
  const double wall_ms = OpenPair()->group_wall_ms();
  EXPECT_GE(wall_ms, 2 * kLong.count());  // alone and overlapped
  // It decides when the warm-up ends and how many groups are taken.
  for (const double other_ms : TestRanks().GatherNumbers({&wall_ms, 1}, "the test"))
    EXPECT_EQ(other_ms, wall_ms) << "another rank may stop at another group";
}

// Until three in a row lie within 3 %, and for 12 groups or 400 ms at most.
TEST_P(SessionSamplesTest, WarmsUpUntilTimesSettle) {
  class KnownDevice : public ForwardingDevice {
   public:
    using ForwardingDevice::ForwardingDevice;
    [[nodiscard]] double ElapsedMs(const Event& /*from*/, const Event& /*to*/) const override {
      return time_ms;
    }
    double time_ms = 1;
  };
  KnownDevice known(GetParam() == Backend::kHost ? OpenHostDevice(2) : OpenCudaDevice(ordinal()));
  const std::vector<double> growing = {1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096};
  for (const auto& [times_ms, groups] : std::vector<std::pair<std::vector<double>, std::size_t>>{
           {{1, 1, 1}, 3},
           {{1.03, 1, 1.02}, 3},
           {{1, 1.031, 1, 1}, 4 + 1},  // the last time is repeated
           {{9, 5, 1, 1.01, 1.02}, 5},
           {{1, 1, 9, 1, 1, 1}, 6},
           {growing, 12}}) {
    std::size_t samples = 0;
    work_.enqueue = [&](Stream&) { known.time_ms = 1; };
    talk_.enqueue = [&](Stream&) {
      known.time_ms = times_ms[std::min(samples++, times_ms.size() - 1)];
    };
    Session session({known, TestRanks()},
                    {.name = "Family/Row",
                     .settings = Settings().With("cache", "warm").With("cadence", "isolated"),
                     .runs =
                         [this](const Settings&) {
                           return Runs{SoloRun(comp(), kNoGate), SoloRun(comm(), kNoGate)};
                         },
                     .report = {}});
    session.SetUp(kNoGate);
    samples = 0;
    const auto begin = std::chrono::steady_clock::now();
    session.WarmUp();
    const bool is_late = std::chrono::steady_clock::now() - begin >= 400ms;
    EXPECT_TRUE(samples == groups || (is_late && samples < groups && samples >= 3))
        << samples << " of " << groups;
  }
}

// Times never settle.
TEST_P(SessionSamplesTest, EndsALongWarmUp) {
  int samples = 0;
  work_.enqueue = [&](Stream&) { std::this_thread::sleep_for(++samples * 40ms); };
  const auto session = Prepare([this] { return Runs{SoloRun(comp(), kNoGate)}; }, kNoGate);
  samples = 0;
  session->WarmUp();
  EXPECT_LE(samples, 4) << "40, 80, 120 and 160 ms are 400";
}

TEST_P(SessionSamplesTest, WarmsUpForAsLongAsItIsTold) {
  work_.enqueue = [](Stream&) { std::this_thread::sleep_for(kLong); };
  const auto session = Prepare([this] { return Runs{SoloRun(comp(), kNoGate)}; }, kNoGate);
  const auto begin = std::chrono::steady_clock::now();
  session->WarmUp(1500ms);
  EXPECT_GE(std::chrono::steady_clock::now() - begin, 1500ms);
}

// A collective that starts on one rank would include its wait for a late rank.
TEST_P(SessionSamplesTest, ASampleExcludesTheWaitForALateRank) {
  if (TestRanks().size() == 1) GTEST_SKIP() << "needs a second rank";
  Machine machine{device(), TestRanks()};
  Registry registry;
  FillRegistry(registry, machine);
  const WorkloadSpec& all_reduce = registry.Find("AllReduce");
  for (const bool gate : {kGate, kNoGate}) {
    const auto session = Open(
        [&] {
          return Runs{
              SoloRun(MakeWork(all_reduce, SettingsOf(all_reduce.axes, {{"bytes", "1536"}})))};
        },
        gate);
    if (OnLastRank()) std::this_thread::sleep_for(kLong);
    EXPECT_LT(session->Measure().back().total_ms, kShort_ms) << "gate " << gate;
  }
}

}  // namespace
}  // namespace overlapbench
