// Sessions: nothing is measured that does not fit, is wrong, or has no effect; and a failure of one
// rank affects all.
#include "fixtures/session.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "forwarding_device.h"
#include "sessions.h"

namespace overlapbench {
namespace {

INSTANTIATE_ON_EACH_BACKEND(SessionTest);

// The later a rank looks, the less memory of the host is free.
class ShrinkingMemory : public ForwardingDevice {
 public:
  ShrinkingMemory() : ForwardingDevice(OpenHostDevice(1)) {}
  static std::size_t FreeBytes(int rank) { return 64 * kGiB - rank * kGiB; }
  [[nodiscard]] Memory memory(MemoryKind /*kind*/) const override {
    return {.free_bytes = FreeBytes(TestRanks().rank()), .total_bytes = 64 * kGiB};
  }

 private:
  static constexpr std::size_t kGiB = std::size_t{1} << 30;
};

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
  const std::string text = Refusal();
  EXPECT_NE(text.find("Family/Row on the host needs 1024 TiB but "), std::string::npos) << text;
}

TEST_P(SessionTest, RanksThatSeeOtherMemoryFreeGiveOneReason) {
  ShrinkingMemory device;
  work_.footprint.host_bytes = 1UL << 50;
  Session session({device, TestRanks()}, RowOf([this] { return Pair(); }));
  EXPECT_FALSE(session.Fits());
  const int ranks = TestRanks().size();
  const std::size_t least = ShrinkingMemory::FreeBytes(ranks - 1) / ranks;
  try {
    session.SetUp(kNoGate);
    FAIL() << "is not refused";
  } catch (const AgreedError& error) {
    EXPECT_EQ(error.what(), "Family/Row on the host needs 1024 TiB but " +
                                FormatBytes(static_cast<double>(least)) +
                                " are free: choose a smaller size");
  }
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

TEST_P(SessionTest, ARunThatCannotBeAGraphIsAnErrorOnAll) {
  work_.enqueue = [](Stream& stream) {
    if (OnLastRank()) stream.Synchronize(kPatience, "the work");
  };
  const std::string refusal = RefusalOf([this] {
    Run run = SoloRun(comp());
    run.as_graph = true;
    return Runs{run};
  });
  EXPECT_EQ(refusal.substr(0, LastRank().size()), LastRank()) << refusal;
}

// The run that is verified may leave marks, so another graph is recorded after it. Samples only
// launch it.
TEST_P(SessionTest, AGraphIsRecordedAfterVerificationForTheLastTime) {
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

}  // namespace
}  // namespace overlapbench
