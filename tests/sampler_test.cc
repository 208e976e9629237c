// Samples: what the host takes to enqueue is in one, or beside it.
//
// Enqueueing sleeps here, for far more than anything else in a sample takes.
#include "fixtures/sampler.h"

#include <array>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "backends.h"
#include "fake_workload.h"
#include "test_ranks.h"

namespace overlapbench {
namespace {

using std::chrono_literals::operator""ms;

constexpr auto kLong = 60ms;
constexpr double kLong_ms = kLong.count();
constexpr double kShort_ms = 20;
constexpr SamplerOptions kGate = {true, false, 1};
constexpr SamplerOptions kNoGate = {false, false, 1};

class SamplerTest : public RanksOnEachBackend {
 protected:
  void SetUp() override {
    RanksOnEachBackend::SetUp();
    if (IsSkipped()) return;
    for (auto& stream : streams_) stream = device().CreateStream();
    slow_.enqueue = [](Stream&) { std::this_thread::sleep_for(kLong); };
  }

  // A run of one lane for each behaviour.
  SceneRun RunOf(const std::vector<const Behaviour*>& behaviours, bool gated) {
    SceneRun run = {"run", {}, std::nullopt, gated};
    workloads_.clear();
    for (const Behaviour* behaviour : behaviours) {
      workloads_.push_back(std::make_unique<FakeWorkload>(*behaviour));
      run.lanes.push_back(
          {workloads_.back().get(), streams_.at(run.lanes.size()).get(), PhaseOf(run)});
    }
    return run;
  }
  Sample Take(const SceneRun& run, SamplerOptions options) {
    return Sampler({device(), TestRanks()}, options).Take(run);
  }
  static bool OnLastRank() { return TestRanks().rank() == TestRanks().size() - 1; }

  Behaviour quick_;
  Behaviour slow_;

 private:
  static const char* PhaseOf(const SceneRun& run) { return run.lanes.empty() ? "COMP" : "COMM"; }

  std::array<std::unique_ptr<Stream>, 2> streams_;
  std::vector<std::unique_ptr<FakeWorkload>> workloads_;
};
INSTANTIATE_ON_EACH_BACKEND(SamplerTest);

TEST_P(SamplerTest, AGatedRunHasTheHostsTimeBesideItsOwn) {
  const Sample sample = Take(RunOf({&slow_}, true), kGate);
  EXPECT_LT(sample.total_ms, kShort_ms);
  EXPECT_GE(sample.enqueue_ms[0], kLong_ms);
}

TEST_P(SamplerTest, AnUngatedRunContainsTheHostsTime) {
  const Sample sample = Take(RunOf({&slow_}, false), kGate);
  EXPECT_GE(sample.total_ms, kLong_ms);
  EXPECT_GE(sample.enqueue_ms[0], kLong_ms);
}

TEST_P(SamplerTest, WithoutAGateAllRunsAreUngated) {
  EXPECT_GE(Take(RunOf({&slow_}, true), kNoGate).total_ms, kLong_ms);
}

TEST_P(SamplerTest, EachLaneHasItsOwnTimeOfTheHost) {
  for (const bool gated : {true, false}) {
    const Sample sample = Take(RunOf({&quick_, &slow_}, gated), kGate);
    EXPECT_LT(sample.enqueue_ms[0], kShort_ms);
    EXPECT_GE(sample.enqueue_ms[1], kLong_ms);
  }
}

TEST_P(SamplerTest, TheSlowestRanksTimeOfTheHostCounts) {
  Behaviour slow_on_one;
  slow_on_one.enqueue = [](Stream&) {
    if (OnLastRank()) std::this_thread::sleep_for(kLong);
  };
  EXPECT_GE(Take(RunOf({&slow_on_one}, true), kGate).enqueue_ms[0], kLong_ms);
}

// Nobody is slower than the sample, and one rank is as slow.
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

// Five in a row take five times as long in all.
TEST_P(SamplerTest, TimesAreOfOneOfTheBatch) {
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

// Nothing is started before all ranks are there.
TEST_P(SamplerTest, AnUngatedRunDoesNotContainALateRank) {
  if (TestRanks().size() == 1) GTEST_SKIP() << "needs a second rank";
  Sampler sampler({device(), TestRanks()}, kGate);
  const SceneRun run = RunOf({&quick_}, false);
  if (OnLastRank()) std::this_thread::sleep_for(kLong);
  EXPECT_LT(sampler.Take(run).total_ms, kShort_ms);
}

// It has no gate that a follower could be held by.
TEST_P(SamplerTest, AnUngatedRunWithALeaderEnds) {
  SceneRun run = RunOf({&quick_, &quick_}, false);
  run.leader = 1;
  EXPECT_LT(Take(run, kGate).total_ms, kShort_ms);
}

// The others have no way of knowing what this rank did not enqueue.
TEST_P(SamplerTest, AFailureOfOneRankInAnUngatedRunEndsTheJob) {
  Behaviour failing;
  failing.enqueue = [](Stream&) {
    if (OnLastRank()) throw Error("the link is down");
  };
  try {
    Take(RunOf({&failing}, false), kGate);
    FAIL() << "the failure went unnoticed";
  } catch (const FatalError& error) {
    EXPECT_NE(std::string(error.what()).find("the link is down"), std::string::npos);
    EXPECT_TRUE(error.known_to_all());
  }
}

}  // namespace
}  // namespace overlapbench
