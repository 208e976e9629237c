// A session's groups of samples: their order, what the gate keeps out of them, and the warm-up.
#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "sessions.h"
#include "tests/forwarding_device.h"
#include "thrown.h"

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

// A device that takes the time that a test sets, and may pose as a GPU.
class KnownDevice : public ForwardingDevice {
 public:
  using ForwardingDevice::ForwardingDevice;
  [[nodiscard]] Backend backend() const override { return shown; }
  [[nodiscard]] double ElapsedMs(const Event& /*from*/, const Event& /*to*/) const override {
    return time_ms;
  }
  double time_ms = 1;
  Backend shown = ForwardingDevice::backend();
};

class SessionSamplesTest : public SessionTest {
 protected:
  // Measures one run after the other on `device`, in a warm cache.
  static Session On(Device& device, Runs runs) {
    return {{device, TestRanks()},
            {.name = "Family/Row",
             .settings = Settings().With("cache", "warm").With("cadence", "isolated"),
             .runs = [runs = std::move(runs)](const Settings&) { return runs; },
             .report = {}}};
  }
  std::unique_ptr<Device> OpenAnother() {
    return GetParam() == Backend::kHost ? OpenHostDevice(2) : OpenCudaDevice(ordinal());
  }
};
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

// Samples of several repetitions are first taken once more with one alone.
TEST_P(SessionSamplesTest, AnEnqueueWithAdviceThatWaitsWhileStreamingIsAnError) {
  work_.enqueue = [](Stream& stream) { stream.Synchronize(kPatience, "waiting in Enqueue"); };
  work_.gate_advice = "do not wait";
  const ShortTimeout timeout(2000ms);
  EXPECT_EQ(Thrown<AgreedError>([&] {
              Open([this] { return Runs{SoloRun(comp())}; }, kGate, {{"cadence", "streaming"}});
            }),
            "'comp' waits for the device behind the closed start gate; do not wait");
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
  EventCountingDevice counting(OpenAnother());
  int before = 0;
  work_.fault = talk_.fault = [&] { return before = counting.created(), ""; };
  Session session = On(counting, Pair());
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

TEST(WarmUp, EndsOnceTimesSettleOrTheLimitIsReached) {
  const std::vector<double> growing = {1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048};
  const auto first = [&](std::size_t count) { return std::span(growing).first(count); };
  const std::vector<double> equal = {1, 1, 1};
  EXPECT_FALSE(IsWarm(std::span(equal).last(2), 10, 0)) << "three decide";
  EXPECT_TRUE(IsWarm(equal, 10, 0));
  EXPECT_TRUE(IsWarm(std::vector<double>{1.03, 1, 1.02}, 10, 0));
  EXPECT_FALSE(IsWarm(std::vector<double>{1, 1.031, 1}, 10, 0));
  EXPECT_TRUE(IsWarm(std::vector<double>{9, 5, 1, 1.01, 1.02}, 10, 0)) << "the last three";
  EXPECT_FALSE(IsWarm(std::vector<double>{1, 1, 1, 9}, 10, 0));
  EXPECT_FALSE(IsWarm(first(11), 399, 0));
  EXPECT_TRUE(IsWarm(first(12), 10, 0));
  EXPECT_TRUE(IsWarm(first(1), 400, 0));
  EXPECT_FALSE(IsWarm(first(12), 999, 1000)) << "it was told to take longer";
  EXPECT_TRUE(IsWarm(first(12), 1000, 1000));
}

// A busy machine may take 400 ms for less.
TEST_P(SessionSamplesTest, WarmsUpUntilTimesSettle) {
  KnownDevice known(OpenAnother());
  for (const auto& [times_ms, groups] :
       std::vector<std::pair<std::vector<double>, std::size_t>>{{{1, 9, 1, 1, 1}, 5}, {{1}, 3}}) {
    std::size_t samples = 0;
    work_.enqueue = [&](Stream&) { known.time_ms = 1; };
    talk_.enqueue = [&](Stream&) {
      known.time_ms = times_ms[std::min(samples++, times_ms.size() - 1)];
    };
    Session session = On(known, {SoloRun(comp(), kNoGate), SoloRun(comm(), kNoGate)});
    session.SetUp(kNoGate);
    samples = 0;
    const auto begin = std::chrono::steady_clock::now();
    session.WarmUp();
    const bool is_late = std::chrono::steady_clock::now() - begin >= 400ms;
    EXPECT_TRUE(samples == groups || (is_late && samples < groups)) << samples << " of " << groups;
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

// Five times in turn, after the run alone has told how long it keeps the device busy. The least
// times count, unless one is above what an empty lane takes.
TEST_P(SessionSamplesTest, ComparesARunWithItsEmptyFormInQuiet) {
  KnownDevice known(OpenAnother());
  Run own = SoloRun(comm());
  own.empty_form = "comp";
  const Runs runs = {SoloRun(comp()), own};
  struct {
    std::vector<double> own_ms;    // the first is that of the run alone, the last one's are later
    std::vector<double> empty_ms;  // the same of the empty form
    std::optional<double> took_ms;
    double took_empty_ms;
  } const rows[] = {{{0.1, 0.7, 0.5, 0.6, 0.8, 0.9, 0.2}, {0.6, 0.4, 0.5, 0.5, 0.5, 0.1}, 0.5, 0.4},
                    {{0.1, 0.7, 0.7, 0.7, 0.7, 0.6, 0.2}, {0.6, 0.5, 0.5, 0.5, 0.3, 0.1}, 0.6, 0.3},
                    {{0.1, 1, 1, 1, 1, 1, 0.2}, {2, 2, 2, 2, 2, 0.1}, 1, 2},
                    {{0.1, 1.01, 0.5}, {0.5}, std::nullopt, 0}};
  for (const auto& row : rows) {
    std::size_t calls = 0;
    std::size_t empty_calls = 0;
    const auto next = [](const std::vector<double>& times_ms, std::size_t& call) {
      return times_ms[std::min(call++, times_ms.size() - 1)];
    };
    talk_.enqueue = [&](Stream&) { known.time_ms = next(row.own_ms, calls); };
    work_.enqueue = [&](Stream&) { known.time_ms = next(row.empty_ms, empty_calls); };
    Session session = On(known, runs);
    session.SetUp(kGate);
    calls = empty_calls = 0;
    session.WarmUp();
    EXPECT_EQ(session.quiet(0), std::nullopt) << "it has no empty form";
    const auto& quiet = session.quiet(1);
    ASSERT_EQ(quiet.has_value(), row.took_ms.has_value());
    if (!quiet) continue;
    EXPECT_EQ(quiet->took_ms, row.took_ms);
    EXPECT_EQ(quiet->empty_ms, row.took_empty_ms);
  }
  talk_.enqueue = work_.enqueue = [&](Stream&) { known.time_ms = 1; };
  Session ungated = On(known, runs);
  ungated.SetUp(kNoGate);
  ungated.WarmUp();
  EXPECT_EQ(ungated.quiet(1), std::nullopt);
}

// For twice as long as it keeps the device busy, by both forms, until a second has passed.
TEST_P(SessionSamplesTest, ComparesALongRunOnceInQuiet) {
  int calls = 0;
  int of_next = 0;
  std::chrono::steady_clock::time_point first_ended;
  talk_.enqueue = [&](Stream&) {
    if (++calls == 1) std::this_thread::sleep_for(260ms);
    if (calls == 2) first_ended = std::chrono::steady_clock::now();
  };
  std::chrono::steady_clock::duration held{};
  work_.enqueue = [&](Stream&) {
    if (++of_next == 1) held = std::chrono::steady_clock::now() - first_ended;
  };
  KnownDevice known(OpenAnother());
  Run own = SoloRun(comm());
  own.empty_form = "comp";
  Session session = On(known, {SoloRun(comp()), own});
  session.SetUp(kGate);
  calls = of_next = 0;
  session.WarmUp();
  EXPECT_GE(held, 520ms);
  EXPECT_EQ(calls - of_next, 1) << "the run alone, and then both as often";
}

TEST(Rests, AreAsLongAsTheDeviceWasBusyAndTenMillisecondsAtMost) {
  EXPECT_EQ(RestAfter_ms(4, 1, Backend::kCuda), 4);
  EXPECT_EQ(RestAfter_ms(10, 1, Backend::kCuda), 10);
  EXPECT_EQ(RestAfter_ms(11, 1, Backend::kCuda), 10);
  EXPECT_EQ(RestAfter_ms(4, 2, Backend::kCuda), 0);
  EXPECT_EQ(RestAfter_ms(4, 1, Backend::kHost), 0);
}

// After a group, or after each of its samples where one rest for all would be too short.
TEST_P(SessionSamplesTest, RestsAfterEveryGroup) {
  KnownDevice known(OpenAnother());
  known.shown = Backend::kCuda;
  Session session = On(known, {SoloRun(comp()), SoloRun(comm())});
  session.SetUp(kGate);
  session.WarmUp();
  const auto took = [&](double time_ms, const auto& measure) {
    known.time_ms = time_ms;
    static_cast<void>(session.Measure());  // decides where the next one rests
    const auto begin = std::chrono::steady_clock::now();
    static_cast<void>(measure());
    return std::chrono::steady_clock::now() - begin;
  };
  const auto group = [&] { return session.Measure(); };
  EXPECT_GE(took(4, group), 8ms);
  EXPECT_GE(took(8, group), 16ms);
  EXPECT_LT(took(5000, group), 4000ms);
  EXPECT_GE(took(8, [&] { return session.MeasureMarked({}); }), 8ms);
}

// A collective that starts on one rank would include its wait for a late rank.
TEST_P(SessionSamplesTest, ASampleExcludesTheWaitForALateRank) {
  if (TestRanks().size() == 1) GTEST_SKIP() << "needs a second rank";
  Registry registry;
  FillRegistry(registry, machine());
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
