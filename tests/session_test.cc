// Sessions: nothing is measured that does not fit, is wrong, or has no effect; a failure of one
// rank is everybody's; and the gate keeps out of a sample what does not belong there.
#include "fixtures/session.h"

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "backends.h"
#include "benchmarks/catalog.h"
#include "benchmarks/plan.h"
#include "fake_workload.h"
#include "fixtures/baseline_fixture.h"
#include "fixtures/overlap_fixture.h"
#include "test_ranks.h"

namespace overlapbench {
namespace {

using std::chrono_literals::operator""ms;

constexpr bool kGate = true;
constexpr bool kNoGate = false;
// What happens on the host outside of a sample, and far more than an empty sample takes.
constexpr auto kLong = 60ms;
constexpr double kShort_ms = 20;

class SessionTest : public RanksOnEachBackend {
 protected:
  // The session of Overlap/Talk+Work, in a warm cache unless `values` says otherwise.
  std::unique_ptr<Session> Open(bool gate, std::map<std::string, std::string> values = {}) {
    values.insert({"cache", "warm"});
    AddFakes();
    return OpenCase<OverlapFixture>("Overlap", {"Talk", "Work", values}, gate);
  }
  // The session of Comm/Work, which is held against Talk.
  std::unique_ptr<Session> OpenWithReference() {
    AddFakes();
    return OpenCase<BaselineFixture>("Comm", {"", "Work", {{"cache", "warm"}}, {"Talk"}}, kGate);
  }
  void AddFakes() {
    registry_ = {};
    registry_.Add(FakeSpec("Work", Side::kCompute, work_));
    registry_.Add(FakeSpec("Talk", Side::kComm, talk_));
  }
  template <class Fixture>
  std::unique_ptr<Session> OpenCase(const std::string& family, const Case& one, bool gate) {
    Machine machine{device(), TestRanks()};
    Plan plan(registry_, GetParam(), {});
    plan.Add<Fixture>(family, one);
    auto session = std::make_unique<Session>(machine, plan.benchmarks().at(0).configuration);
    session->SetUp(gate);
    return session;
  }
  // What setting up throws, as text.
  std::string Refusal() {
    try {
      Open(kGate);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }
  static bool OnLastRank() { return TestRanks().rank() == TestRanks().size() - 1; }
  static std::string LastRank() {
    const int size = TestRanks().size();
    return size == 1 ? "" : "rank " + std::to_string(size - 1) + ": ";
  }

  Behaviour work_;
  Behaviour talk_;
  Registry registry_;
};
INSTANTIATE_ON_EACH_BACKEND(SessionTest);

TEST_P(SessionTest, VerifiesEachSideAloneAndWhileOverlapped) {
  int work_verified = 0;
  int talk_verified = 0;
  work_.fault = [&] { return ++work_verified, ""; };
  talk_.fault = [&] { return ++talk_verified, ""; };
  Open(kGate);
  EXPECT_EQ(work_verified, 2);
  EXPECT_EQ(talk_verified, 2);
}

TEST_P(SessionTest, AWrongResultOfOneRankIsAnErrorOnAll) {
  work_.fault = [] { return OnLastRank() ? "element 3 is 1, expected 2" : ""; };
  EXPECT_EQ(Refusal(),
            LastRank() + "wrong result of COMP in run 'comp': element 3 is 1, expected 2");
}

TEST_P(SessionTest, AResultThatIsWrongOnlyWhileOverlappedIsAnError) {
  int verified = 0;
  talk_.fault = [&] { return ++verified == 2 ? "element 3 is 1, expected 2" : ""; };
  EXPECT_EQ(Refusal(), "wrong result of COMM in run 'overlap': element 3 is 1, expected 2");
}

TEST_P(SessionTest, WhatDoesNotFitIsRefusedBeforeItIsMade) {
  bool made = false;
  work_.footprint.device_bytes = 1UL << 50;
  work_.make = [&] { made = true; };
  const std::string text = Refusal();
  EXPECT_EQ(text.find("Overlap/Talk+Work/cache:warm needs 1024 TiB but "), 0U) << text;
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

TEST_P(SessionTest, WhatDoesNotFitTheHostIsRefusedOnEveryBackend) {
  work_.footprint.host_bytes = 1UL << 50;
  const std::string text = Refusal();
  EXPECT_EQ(text.find("Overlap/Talk+Work/cache:warm on the host needs 1024 TiB but "), 0U) << text;
}

TEST_P(SessionTest, RanksShareTheHostsMemory) {
  work_.footprint.host_bytes = device().memory(MemoryKind::kPinned).free_bytes / 10 * 7;
  const bool fits = TestRanks().size() == 1;
  EXPECT_EQ(Refusal().find(" are free") == std::string::npos, fits) << Refusal();
}

// What a benchmark is held against is set up, verified and measured with it.
TEST_P(SessionTest, AReferenceMustFitAsWell) {
  talk_.footprint.device_bytes = 1UL << 50;
  try {
    OpenWithReference();
    FAIL() << "a pebibyte was granted";
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()).find("Comm/Work/cache:warm needs 1024 TiB but "), 0U)
        << error.what();
  }
}

TEST_P(SessionTest, AWrongResultOfAReferenceIsAnError) {
  talk_.fault = [] { return "element 3 is 1, expected 2"; };
  EXPECT_THROW(OpenWithReference(), Error);
}

TEST_P(SessionTest, MeasuresItsReferencesInFrontOfItsOwnRun) {
  std::string order;
  work_.enqueue = [&](Stream&) { order += 'W'; };
  talk_.enqueue = [&](Stream&) { order += 'R'; };
  const auto session = OpenWithReference();
  order.clear();
  for (int i = 0; i < 2; ++i) EXPECT_EQ(session->Measure().size(), 2U);
  EXPECT_TRUE(order == "RWWR" || order == "WRRW") << order;
}

TEST_P(SessionTest, KeepsTheFingerprintOfEachRunsFirstLane) {
  work_.fingerprint = 1;
  talk_.fingerprint = 2;
  using Fingerprints = std::vector<std::optional<std::uint64_t>>;
  EXPECT_EQ(Open(kGate)->fingerprints(), (Fingerprints{1, 2, 2}));
  work_.fingerprint = std::nullopt;
  EXPECT_EQ(OpenWithReference()->fingerprints(), (Fingerprints{2, std::nullopt}));
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
    Open(kGate);
    FAIL() << "the failure went unnoticed";
  } catch (const FatalError& error) {
    EXPECT_EQ(error.what(), LastRank() + "the link is down");
    EXPECT_TRUE(error.known_to_all());
  }
}

TEST_P(SessionTest, AKnobWithoutEffectIsKept) {
  work_.knob_fault = "sm_target:8 changed no grid";
  EXPECT_EQ(Open(kGate)->knob_fault(), "sm_target:8 changed no grid");
}

// C M T and T M C in turn. In T the communication is enqueued first.
TEST_P(SessionTest, InterleavesSoloAndOverlappedSamples) {
  std::string order;
  work_.enqueue = [&](Stream&) { order += 'C'; };
  talk_.enqueue = [&](Stream&) { order += 'M'; };
  const auto session = Open(kGate);
  order.clear();
  for (int i = 0; i < 2; ++i) session->Measure();
  const std::string forward = "CMMC";
  const std::string backward = "MCMC";
  EXPECT_TRUE(order == forward + backward || order == backward + forward) << order;
}

TEST_P(SessionTest, StreamsTwentyBackToBack) {
  int runs = 0;
  work_.enqueue = [&](Stream&) { ++runs; };
  const auto session = Open(kGate, {{"cadence", "streaming"}});
  runs = 0;
  session->Measure();  // alone and overlapped
  EXPECT_EQ(runs, 40);
}

TEST_P(SessionTest, TheGateKeepsEnqueueingOutOfTheSample) {
  work_.enqueue = [](Stream&) {
    if (OnLastRank()) std::this_thread::sleep_for(kLong);
  };
  EXPECT_LT(Open(kGate)->Measure().front().total_ms, kShort_ms);
  EXPECT_GE(Open(kNoGate)->Measure().front().total_ms, kLong.count());
}

// A call that needs the work behind the gate cannot be let wait for ever, and must not go
// unnoticed.
TEST_P(SessionTest, AnEnqueueThatWaitsNeedsAnOpenGate) {
  work_.enqueue = [](Stream& stream) { stream.Synchronize(kPatience, "waiting in Enqueue"); };
  TestRanks().set_timeout(1000ms);
  EXPECT_NE(Refusal().find("--gate=off"), std::string::npos);
  EXPECT_NO_THROW(Open(kNoGate));
  work_.enqueue_waits = true;
  EXPECT_NO_THROW(Open(kGate));
  TestRanks().set_timeout(kRanksPatience);
}

// A collective that starts on one rank and waits for the other takes as long as the other is late.
TEST_P(SessionTest, ALateRankIsKeptOutOfTheSample) {
  if (TestRanks().size() == 1) GTEST_SKIP() << "needs a second rank";
  Machine machine{device(), TestRanks()};
  FillRegistry(registry_, machine);
  for (const bool gate : {kGate, kNoGate}) {
    const Case all_reduce = {"", "AllReduce", {{"bytes", "1536"}, {"cache", "warm"}}};
    const auto session = OpenCase<BaselineFixture>("Comm", all_reduce, gate);
    if (OnLastRank()) std::this_thread::sleep_for(kLong);
    EXPECT_LT(session->Measure().back().total_ms, kShort_ms) << "gate " << gate;
  }
}

}  // namespace
}  // namespace overlapbench
