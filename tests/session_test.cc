// Sessions: nothing is measured that does not fit, is wrong, or has no effect; a failure of one
// rank affects all; and the gate keeps out of a sample what does not belong there.
#include "fixtures/session.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "backends.h"
#include "fake_workload.h"
#include "test_ranks.h"
#include "tests/forwarding_device.h"

namespace overlapbench {
namespace {

using std::chrono_literals::operator""ms;

constexpr bool kGate = true;
constexpr bool kNoGate = false;
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

class SessionTest : public RanksOnEachBackend {
 protected:
  using Run = overlapbench::Run;  // not GoogleTest's
  using Runs = std::vector<Run>;

  Work comp() { return FakeWork("comp", WorkClass::kCompute, work_); }
  Work comm() { return FakeWork("comm", WorkClass::kComm, talk_); }

  // Both alone and both at once, on two lanes. In the last the communication is enqueued first.
  Runs Pair() {
    const Work comp = this->comp();
    const Work comm = this->comm();
    Run both{.name = "overlap"};
    both.schedule.Add(both.schedule.AddLane({"COMM"}), comm);
    both.schedule.Add(both.schedule.AddLane({"COMP"}), comp);
    return {SoloRun(comp), SoloRun(comm), both};
  }
  // The communication waits for the computation.
  Runs Chain() {
    Run chain{.name = "chain"};
    const std::size_t first = chain.schedule.Add(chain.schedule.AddLane({"COMP"}), comp());
    chain.schedule.Add(chain.schedule.AddLane({"COMM"}), comm(), {.after = {first}});
    return {chain};
  }

  // The session of a benchmark of these runs, in a warm cache unless `values` say otherwise.
  std::unique_ptr<Session> Open(
      const std::function<Runs()>& runs, bool gate = kGate,
      const std::vector<std::pair<std::string, std::string>>& values = {}) {
    auto session = Prepare(runs, gate, values);
    session->WarmUp();
    return session;
  }
  // The same, not warmed up.
  std::unique_ptr<Session> Prepare(
      const std::function<Runs()>& runs, bool gate,
      const std::vector<std::pair<std::string, std::string>>& values = {}) {
    const std::vector<Axis> axes = {
        ChoiceAxis("cache", "", {"cold", "warm"}, "warm"),
        ChoiceAxis("cadence", "", {"isolated", "streaming"}, "isolated")};
    Benchmark benchmark{.name = "Family/Row",
                        .settings = SettingsOf(axes, values),
                        .runs = [runs](const Settings&) { return runs(); },
                        .report = {}};
    auto session = std::make_unique<Session>(Machine{device(), TestRanks()}, std::move(benchmark));
    session->SetUp(gate);
    return session;
  }
  std::unique_ptr<Session> OpenPair(bool gate = kGate) {
    return Open([this] { return Pair(); }, gate);
  }
  // What setting up throws, as text.
  std::string RefusalOf(const std::function<Runs()>& runs) {
    try {
      Open(runs);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }
  std::string Refusal() {
    return RefusalOf([this] { return Pair(); });
  }
  static bool OnLastRank() { return TestRanks().rank() == TestRanks().size() - 1; }
  static std::string LastRank() {
    const int size = TestRanks().size();
    return size == 1 ? "" : "rank " + std::to_string(size - 1) + ": ";
  }

  Behaviour work_;
  Behaviour talk_;
};
INSTANTIATE_ON_EACH_BACKEND(SessionTest);

TEST_P(SessionTest, VerifiesEachSideAloneAndWhileOverlapped) {
  int work_verified = 0;
  int talk_verified = 0;
  work_.fault = [&] { return ++work_verified, ""; };
  talk_.fault = [&] { return ++talk_verified, ""; };
  OpenPair();
  EXPECT_EQ(work_verified, 2);
  EXPECT_EQ(talk_verified, 2);
}

TEST_P(SessionTest, AWrongResultOfOneRankIsAnErrorOnAll) {
  work_.fault = [] { return OnLastRank() ? "element 3 is 1, expected 2" : ""; };
  EXPECT_EQ(Refusal(),
            LastRank() + "wrong result of COMP 'comp' in run 'comp': element 3 is 1, expected 2");
}

TEST_P(SessionTest, AResultThatIsWrongOnlyWhileOverlappedIsAnError) {
  int verified = 0;
  talk_.fault = [&] { return ++verified == 2 ? "element 3 is 1, expected 2" : ""; };
  EXPECT_EQ(Refusal(), "wrong result of COMM 'comm' in run 'overlap': element 3 is 1, expected 2");
}

TEST_P(SessionTest, WorkThatDoesNotFitIsRefusedBeforeItIsMade) {
  bool made = false;
  work_.footprint.device_bytes = 1UL << 50;
  work_.make = [&] { made = true; };
  const std::string text = Refusal();
  EXPECT_NE(text.find("Family/Row needs 1024 TiB but "), std::string::npos) << text;
  EXPECT_NE(text.find(" are free"), std::string::npos) << text;
  EXPECT_FALSE(made);
}

TEST_P(SessionTest, SidesThatFitOnlyOneAtATimeAreRefused) {
  const std::size_t free_bytes = device().memory(MemoryKind::kDevice).free_bytes;
  work_.footprint.device_bytes = talk_.footprint.device_bytes = free_bytes / 10 * 7;
  EXPECT_NE(Refusal().find(" are free"), std::string::npos);
}

// A GPU is one rank's; the host's memory is shared.
TEST_P(SessionTest, RanksThatFitOnlyOneAtATimeAreRefusedOnTheHost) {
  const std::size_t free_bytes = device().memory(MemoryKind::kDevice).free_bytes;
  work_.footprint.device_bytes = free_bytes / 10 * 7;
  const bool shared = device().backend() == Backend::kHost && TestRanks().size() > 1;
  EXPECT_EQ(Refusal().find(" are free") != std::string::npos, shared) << Refusal();
}

TEST_P(SessionTest, WorkThatDoesNotFitTheHostIsRefusedOnEveryBackend) {
  work_.footprint.host_bytes = 1UL << 50;
  const std::string text = Refusal();  // each rank's own, where they see other memory free
  EXPECT_NE(text.find("Family/Row on the host needs 1024 TiB but "), std::string::npos) << text;
}

TEST_P(SessionTest, RanksShareTheHostsMemory) {
  work_.footprint.host_bytes = device().memory(MemoryKind::kPinned).free_bytes / 10 * 7;
  const bool fits = TestRanks().size() == 1;
  EXPECT_EQ(Refusal().find(" are free") == std::string::npos, fits) << Refusal();
}

// A footprint may ask the device.
TEST_P(SessionTest, ARankThatCannotLayOutItsRunsFailsOnAll) {
  const auto runs = [this] {
    if (OnLastRank()) throw Error("the device is lost");
    return Pair();
  };
  EXPECT_THROW(Open(runs), AgreedError);
  EXPECT_EQ(RefusalOf(runs), LastRank() + "the device is lost");
}

// Every run's works, not the benchmark's own alone.
TEST_P(SessionTest, TheMemoryOfReferenceRunsMustFitToo) {
  talk_.footprint.device_bytes = 1UL << 50;
  const std::string text = RefusalOf([this] { return Runs{SoloRun(comm()), SoloRun(comp())}; });
  EXPECT_NE(text.find("Family/Row needs 1024 TiB but "), std::string::npos) << text;
}

TEST_P(SessionTest, AWrongResultOfAReferenceRunIsAnError) {
  talk_.fault = [] { return "element 3 is 1, expected 2"; };
  EXPECT_EQ(RefusalOf([this] { return Runs{SoloRun(comm()), SoloRun(comp())}; }),
            "wrong result of COMM 'comm' in run 'comm': element 3 is 1, expected 2");
}

TEST_P(SessionTest, AWorkSharedByRunsIsCountedAndMadeOnce) {
  int made = 0;
  const std::size_t free_bytes = device().memory(MemoryKind::kDevice).free_bytes;
  work_.footprint.device_bytes = free_bytes / 10 * 7 / TestRanks().local_size();
  work_.make = [&] { ++made; };
  const auto session = OpenPair();
  EXPECT_EQ(made, 1);
}

TEST_P(SessionTest, AColdCacheNeedsRoomForItsFlush) {
  const std::size_t free_bytes = device().memory(MemoryKind::kDevice).free_bytes;
  // The host's memory is shared, a GPU is one rank's.
  const int sharers = device().backend() == Backend::kHost ? TestRanks().local_size() : 1;
  // What is free may change a little before it is looked at again.
  work_.footprint.device_bytes = free_bytes / sharers - CacheFlush::BufferBytes(device()) / 2;
  const auto open = [this](const char* cache) {
    Open([this] { return Pair(); }, kGate, {{"cache", cache}});
  };
  EXPECT_NO_THROW(open("warm"));
  EXPECT_THROW(open("cold"), AgreedError);
}

// ---- Verification

TEST_P(SessionTest, OnlySinksAreVerified) {
  int work_verified = 0;
  int talk_verified = 0;
  work_.fault = [&] { return ++work_verified, ""; };
  talk_.fault = [&] { return ++talk_verified, ""; };
  Open([this] { return Chain(); });
  EXPECT_EQ(work_verified, 0);
  EXPECT_EQ(talk_verified, 1);
}

// The last work fills the data first, and the one before it then poisons its result.
TEST_P(SessionTest, FillsRunsAndVerifiesEachRunFromTheLastWorkToTheFirst) {
  std::string order;
  work_.reset = [&] { order += "fill C, "; };
  talk_.reset = [&] { order += "fill M, "; };
  work_.poison = [&] { order += "poison C, "; };
  work_.enqueue = [&](Stream&) { order += "C, "; };
  talk_.enqueue = [&](Stream&) { order += "M, "; };
  talk_.fault = [&] { return order += "verify M, ", ""; };
  Open([this] {
    Runs runs = Chain();
    runs.insert(runs.begin(), SoloRun(runs[0].schedule.steps()[1].work));
    return runs;
  });
  const std::string setup = "fill M, M, verify M, fill M, fill C, poison C, C, M, verify M, ";
  EXPECT_EQ(order.substr(0, setup.size()), setup);
  EXPECT_EQ(order.find("fill", setup.size()), std::string::npos);
  EXPECT_EQ(order.find("verify", setup.size()), std::string::npos);
}

// The ranks still agree on each of the sinks.
TEST_P(SessionTest, ARankVerifiesOnlyItsOwnWork) {
  int verified = 0;
  int enqueued = 0;
  work_.enqueue = [&](Stream& /*stream*/) { ++enqueued; };
  work_.fault = [&] { return ++verified, ""; };
  work_.fingerprint = 7;
  talk_.fingerprint = 5;
  const auto session = Open([this] {
    Run run{.name = "run"};
    const int last = TestRanks().size() - 1;
    run.schedule.Add(run.schedule.AddLane({.name = "last", .rank = last}), comp());
    run.schedule.Add(run.schedule.AddLane({.name = "first", .rank = 0}), comm());
    return Runs{run};
  });
  EXPECT_EQ(verified, OnLastRank() ? 1 : 0);
  EXPECT_EQ(enqueued > 0, OnLastRank());
  if (TestRanks().size() > 1) {
    EXPECT_EQ(session->fingerprint(0), OnLastRank() ? 7U : 5U);
  }
}

TEST_P(SessionTest, KeepsTheLargestError) {
  const auto session = OpenPair();
  EXPECT_EQ(session->max_rel_err(), 0);
  talk_.max_rel_err = 0.25;
  work_.max_rel_err = 0.125;
  EXPECT_EQ(OpenPair()->max_rel_err(), 0.25);
}

TEST_P(SessionTest, ARunsFingerprintIsThatOfItsSinks) {
  work_.fingerprint = 1;
  talk_.fingerprint = 2;
  const auto pair = OpenPair();
  EXPECT_EQ(pair->fingerprint(0), 1U);
  EXPECT_EQ(pair->fingerprint(1), 2U);
  const auto both = pair->fingerprint(2);
  ASSERT_TRUE(both.has_value());
  std::swap(work_.fingerprint, talk_.fingerprint);
  EXPECT_NE(OpenPair()->fingerprint(2), both) << "each has the other's result";
  EXPECT_EQ(Open([this] { return Chain(); })->fingerprint(0), 1U);
  work_.fingerprint = std::nullopt;
  EXPECT_EQ(OpenPair()->fingerprint(0), std::nullopt);
  EXPECT_EQ(OpenPair()->fingerprint(2), std::nullopt);
}

// Such as any run on the host, which has no graphs.
TEST_P(SessionTest, ARunThatCannotBeAGraphIsAnErrorOnAll) {
  if (device().info().no_graphs.empty()) GTEST_SKIP() << "this device has graphs";
  const std::string refusal = RefusalOf([this] {
    Run run = SoloRun(comp());
    run.as_graph = true;
    return Runs{run};
  });
  EXPECT_EQ(refusal, device().info().no_graphs);
}

// The run that is verified may leave marks, so another graph is recorded after it. Samples only
// launch it.
TEST_P(SessionTest, AGraphIsRecordedAfterVerificationForTheLastTime) {
  if (!device().info().no_graphs.empty()) GTEST_SKIP() << device().info().no_graphs;
  std::string order;
  work_.enqueue = [&](Stream&) { order += 'C'; };
  work_.fault = [&] { return order += 'V', ""; };
  const auto session = Open([this] {
    Run run = SoloRun(comp());
    run.as_graph = true;
    return Runs{run};
  });
  session->Measure();
  EXPECT_EQ(order, "CVC");
}

// ---- Failures

TEST_P(SessionTest, ConnectsAWorkAfterAllAreMadeAndBeforeAnyRuns) {
  std::string order;
  work_.make = talk_.make = [&] { order += "make, "; };
  work_.connect = talk_.connect = [&] { order += "connect, "; };
  work_.reset = [&] { order += "reset, "; };
  Open([&] { return Runs{SoloRun(comp()), SoloRun(comm())}; });
  EXPECT_EQ(order.substr(0, order.find("reset")), "make, make, connect, connect, ");
}

TEST_P(SessionTest, RunsAreFoundByName) {
  const auto session = OpenPair();
  EXPECT_EQ(session->RunNamed("comm"), 1U);
  EXPECT_EQ(session->RunNamed("overlap"), 2U);
  EXPECT_THROW(static_cast<void>(session->RunNamed("other")), Error);
}

TEST_P(SessionTest, AWorkloadThatOneRankCannotMakeIsAnErrorOnAll) {
  work_.make = [] {
    if (OnLastRank()) throw Error("no such library");
  };
  EXPECT_EQ(Refusal(), LastRank() + "no such library");
}

TEST_P(SessionTest, AFirstRunThatFailsOnOneRankIsAnErrorOnAll) {
  talk_.enqueue = [](Stream&) {
    if (OnLastRank()) throw Error("the link is down");
  };
  EXPECT_EQ(Refusal(), LastRank() + "the link is down");
}

// The other ranks may stand behind their gates in a collective that can never end.
TEST_P(SessionTest, AFailureBehindTheGateEndsTheJob) {
  int runs = 0;
  work_.enqueue = [&](Stream&) {
    if (++runs > 2 && OnLastRank()) throw Error("the link is down");
  };
  try {
    OpenPair();
    FAIL() << "the failure went unnoticed";
  } catch (const FatalError& error) {
    EXPECT_EQ(error.what(), LastRank() + "the link is down");
    EXPECT_TRUE(error.known_to_all());
  }
}

TEST_P(SessionTest, AKnobWithoutEffectIsReported) {
  EXPECT_EQ(OpenPair()->knob_fault(), "");
  work_.knob_fault = "sm_target:8 changed no grid";
  EXPECT_EQ(OpenPair()->knob_fault(), "sm_target:8 changed no grid");
}

TEST_P(SessionTest, CommunicationsOfALaneTakeTheirSmsInTurn) {
  EXPECT_EQ(OpenPair()->comm_sms(), std::nullopt);
  work_.sms = 100;
  talk_.sms = 16;
  Behaviour short_talk;
  short_talk.sms = 8;
  const auto session = Open([&] {
    Run run{.name = "run"};
    run.schedule.Add(run.schedule.AddLane({"COMP"}), comp());
    const std::size_t lane = run.schedule.AddLane({"COMM"});
    run.schedule.Add(lane, comm());
    run.schedule.Add(lane, FakeWork("short", WorkClass::kComm, short_talk));
    run.schedule.Add(lane, comm());
    run.schedule.Add(run.schedule.AddLane({"other"}),
                     FakeWork("short", WorkClass::kComm, short_talk));
    return Runs{run};
  });
  EXPECT_EQ(session->comm_sms(), 16 + 8);
}

// Counts the partition, by the name of the row's axis, and nothing else: the target is then advice.
TEST_P(SessionTest, APartitionIsCountedInsteadOfTheWorksOtherKnobs) {
  const int least = device().info().partitions.least;
  if (least == 0) GTEST_SKIP() << "this device has no partitions";
  work_.knob_fault = "sm_target:8 changed no grid";
  const auto session = Open([&] {
    const Work comp = this->comp();
    Run limited{.name = "limited"};
    limited.schedule.Add(limited.schedule.AddLane({"COMM"}), comm());
    limited.schedule.Add(limited.schedule.AddLane({.name = "COMP", .sms = least}), comp);
    return Runs{{.name = "alone", .schedule = limited.schedule.Alone(comp)}, limited};
  });
  EXPECT_EQ(session->knob_fault(), "");
  EXPECT_EQ(session->sms_used(0, 0).size(), least);
  EXPECT_EQ(session->sms_used(1, 0).size(), 0U);
  EXPECT_EQ(session->sms_used(1, 1).size(), least);
}

// No device has a thousand priorities, and the nearest one is not the requested one.
TEST_P(SessionTest, AStreamWithAnotherPriorityIsReported) {
  const int highest = device().info().priorities - 1;
  const auto with = [&](int priority) {
    return Open([&] {
             Run one{.name = "one"};
             one.schedule.Add(one.schedule.AddLane({.name = "COMP"}), comp());
             one.schedule.Add(one.schedule.AddLane({.name = "COMM", .priority = priority}), comm());
             return Runs{one};
           })
        ->knob_fault();
  };
  for (int priority = 0; priority <= highest; ++priority) EXPECT_EQ(with(priority), "");
  EXPECT_EQ(with(1000),
            "the stream of COMM has priority " + std::to_string(highest) + " instead of 1000");
}

// C M T and T M C in turn. In T the communication is enqueued first.
TEST_P(SessionTest, InterleavesSoloAndOverlappedSamples) {
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

TEST_P(SessionTest, StreamsTwentyBackToBack) {
  int runs = 0;
  work_.enqueue = [&](Stream&) { ++runs; };
  const auto session = Open([this] { return Pair(); }, kGate, {{"cadence", "streaming"}});
  runs = 0;
  session->Measure();  // alone and overlapped
  EXPECT_EQ(runs, 40);
}

TEST_P(SessionTest, StreamsAtMostAThousandStepsOrOnce) {
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

TEST_P(SessionTest, TheGateKeepsEnqueueingOutOfTheSample) {
  work_.enqueue = [](Stream&) {
    if (OnLastRank()) std::this_thread::sleep_for(kLong);
  };
  EXPECT_LT(OpenPair()->Measure().front().total_ms, kShort_ms);
  EXPECT_GE(OpenPair(kNoGate)->Measure().front().total_ms, kLong.count());
}

// As does a call that finds a launch queue full.
TEST_P(SessionTest, TheHostTakesNoPartInGatedSamplesOfAGpu) {
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

TEST_P(SessionTest, AnEnqueueThatWaitsForTheWorkBehindTheGateLeavesTheRowUngated) {
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
TEST_P(SessionTest, AnEnqueueWithAdviceThatWaitsBehindTheGateIsAnErrorWithinThreeSeconds) {
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

TEST_P(SessionTest, AnEnqueueThatIsKnownToWaitIsNotTriedBehindTheGate) {
  work_.enqueue = [](Stream& stream) { stream.Synchronize(kPatience, "waiting in Enqueue"); };
  EXPECT_EQ(OpenPair(kNoGate)->no_gate(), "");
  work_.enqueue_waits = true;
  EXPECT_EQ(OpenPair()->no_gate(), "");
}

// The queue of the last rank has room for five operations.
TEST_P(SessionTest, StreamsAsManyAsFitBehindTheGate) {
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
TEST_P(SessionTest, WhatFillsALaunchQueueIsNotGated) {
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
TEST_P(SessionTest, AWaitBehindTheGateAfterTheWarmUpIsAnErrorOnAll) {
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

TEST_P(SessionTest, AnEmptySampleContainsNoWork) {
  work_.enqueue = [](Stream&) { std::this_thread::sleep_for(kLong); };
  EXPECT_LT(OpenPair()->empty_sample_ms(), kShort_ms);
  const double ungated_ms = OpenPair(kNoGate)->empty_sample_ms();
  EXPECT_GT(ungated_ms, 0);  // the host enqueues meanwhile
  EXPECT_LT(ungated_ms, kShort_ms);
}

// Its events are those that are made after everything has been verified.
TEST_P(SessionTest, AnEmptySampleHasTheRowsLanes) {
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

TEST_P(SessionTest, AGroupsWallTimeCoversAllItsRuns) {
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
TEST_P(SessionTest, WarmsUpUntilTimesSettle) {
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
TEST_P(SessionTest, EndsALongWarmUp) {
  int samples = 0;
  work_.enqueue = [&](Stream&) { std::this_thread::sleep_for(++samples * 40ms); };
  const auto session = Prepare([this] { return Runs{SoloRun(comp(), kNoGate)}; }, kNoGate);
  samples = 0;
  session->WarmUp();
  EXPECT_LE(samples, 4) << "40, 80, 120 and 160 ms are 400";
}

TEST_P(SessionTest, WarmsUpForAsLongAsItIsTold) {
  work_.enqueue = [](Stream&) { std::this_thread::sleep_for(kLong); };
  const auto session = Prepare([this] { return Runs{SoloRun(comp(), kNoGate)}; }, kNoGate);
  const auto begin = std::chrono::steady_clock::now();
  session->WarmUp(1500ms);
  EXPECT_GE(std::chrono::steady_clock::now() - begin, 1500ms);
}

// A collective that starts on one rank would include its wait for a late rank.
TEST_P(SessionTest, ASampleExcludesTheWaitForALateRank) {
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
