// Ground truth: delays of 4 ms and 2 ms, whose overlap is known, and batches that take 60 ms to
// make.
//
// On two streams the delays overlap perfectly, on one not at all. Batches that take next to nothing
// to consume come as fast as the workers make them. The whole method is under test: gate, events,
// agreement of ranks, medians, metrics, and the check that marks a pair that did not overlap.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "backends.h"
#include "benchmarks/catalog.h"
#include "benchmarks/plan.h"
#include "fixtures/baseline_fixture.h"
#include "fixtures/overlap_fixture.h"
#include "fixtures/statistics.h"
#include "fixtures/supply_fixture.h"
#include "reporting.h"
#include "test_ranks.h"

namespace overlapbench {
namespace {

constexpr int kGroups = 101;
constexpr int kStreamingGroups = 15;  // of twenty delays each
constexpr int kSupplies = 3;          // for each number of workers
constexpr double kDelay_ms = 4;

struct Tolerances {
  double slowdown_together;
  double slowdown_in_turn;
  double efficiency;
};
constexpr Tolerances kHostTolerances = {0.02, 0.03, 0.05};
constexpr Tolerances kCudaTolerances = {0.01, 0.01, 0.01};

class GroundTruthTest : public RanksOnEachBackend {
 protected:
  void SetUp() override {
    RanksOnEachBackend::SetUp();
    if (IsSkipped()) return;
    machine_ = std::make_unique<Machine>(Machine{device(), TestRanks()});
    FillRegistry(registry_, *machine_);
  }

  template <class Fixture>
  void Open(const Case& one) {
    Plan plan(registry_, GetParam(), {});
    plan.Add<Fixture>("Family", one);
    configuration_ = plan.benchmarks().at(0).configuration;
    auto session = std::make_unique<Session>(*machine_, configuration_);
    session->SetUp(true);
    suite_ = std::make_unique<Suite>(Suite{*machine_, options_, std::move(session)});
  }
  std::vector<Group> Measure(int count) {
    std::vector<Group> groups;
    for (int i = 0; i < count; ++i) groups.push_back(suite_->session->Measure());
    return groups;
  }
  template <class Fixture>
  Row Report(const std::vector<Group>& groups) {
    return ReportOf<Fixture>(*suite_, configuration_, groups);
  }

  Row MeasurePair(const std::string& streams) {
    Open<OverlapFixture>({"SecondDelay", "Delay", {{"streams", streams}, {"cache", "warm"}}});
    return Report<OverlapFixture>(Measure(kGroups));
  }

  // Eight batches from workers that sleep. Another process makes a sample longer, never shorter.
  Row MeasureSupply(const std::string& workers) {
    Open<SupplyFixture>({"",
                         "Supply",
                         {{"workers", workers},
                          {"source", "wait"},
                          {"make_us", "60000"},
                          {"supply_batches", "8"},
                          {"batch_bytes", "4096"},
                          {"intensity", "1"},
                          {"cache", "warm"}},
                         {"SupplyMake", "SupplyConsume"}});
    return Report<SupplyFixture>({LeastDisturbed(Measure(kSupplies))});
  }
  // The shortest sample of each run.
  static Group LeastDisturbed(const std::vector<Group>& groups) {
    Group least = groups.front();
    for (const Group& group : groups) {
      for (std::size_t run = 0; run < least.size(); ++run)
        least[run] = std::min(least[run], group[run], [](const Sample& a, const Sample& b) {
          return a.total_ms < b.total_ms;
        });
    }
    return least;
  }

  std::vector<double> MeasureAlone(const std::string& cadence, int count) {
    Open<BaselineFixture>({"", "Delay", {{"cadence", cadence}, {"cache", "warm"}}});
    return Totals_ms(Measure(count), 0);
  }

  [[nodiscard]] const Tolerances& tolerances() const {
    return GetParam() == Backend::kHost ? kHostTolerances : kCudaTolerances;
  }

 private:
  std::unique_ptr<Machine> machine_;
  Registry registry_;
  Options options_;
  Configuration configuration_;
  std::unique_ptr<Suite> suite_;
};
INSTANTIATE_ON_EACH_BACKEND(GroundTruthTest);

TEST_P(GroundTruthTest, TwoStreamsOverlapPerfectly) {
  const Row row = MeasurePair("2");
  EXPECT_NEAR(row.counters.at("slowdown"), 1.0, tolerances().slowdown_together);
  EXPECT_NEAR(row.counters.at("efficiency"), 1.0, tolerances().efficiency);
  EXPECT_EQ(row.fault, "");
}

TEST_P(GroundTruthTest, OneStreamDoesNotOverlapAndIsMarked) {
  const Row row = MeasurePair("1");
  EXPECT_NEAR(row.counters.at("slowdown"), 1.5, tolerances().slowdown_in_turn);
  EXPECT_NEAR(row.counters.at("efficiency"), 0.0, tolerances().efficiency);
  EXPECT_EQ(row.fault.find("not overlapped"), 0U) << row.fault;
}

TEST_P(GroundTruthTest, ADelayAloneTakesItsTime) {
  const double time_ms = Median(MeasureAlone("isolated", kGroups));
  EXPECT_NEAR(time_ms / kDelay_ms, 1, tolerances().slowdown_together);
}

// A group's time is the mean of twenty, each of which another process may have disturbed. The group
// that was disturbed least tells whether the time is divided rightly.
TEST_P(GroundTruthTest, OneOfTwentyInARowTakesItsTime) {
  const double time_ms = Quantile(MeasureAlone("streaming", kStreamingGroups), 0);
  EXPECT_NEAR(time_ms / kDelay_ms, 1, tolerances().slowdown_together);
}

// Each worker makes a batch in 60 ms, and all of them at once.
TEST_P(GroundTruthTest, BatchesComeAsFastAsTheirWorkersMakeThem) {
  constexpr double kTolerance = 0.1;
  constexpr double kMake_ms = 60;
  for (const int workers : {1, 2, 4}) {
    SCOPED_TRACE(std::to_string(workers) + " workers");
    const Row row = MeasureSupply(std::to_string(workers));
    const double expected_batches_per_s = workers * 1000 / kMake_ms;
    EXPECT_NEAR(row.counters.at("batches_per_s") / expected_batches_per_s, 1, kTolerance);
    EXPECT_NEAR(row.counters.at("prediction_error_pct") / 100, 0, kTolerance);
    EXPECT_NEAR(row.counters.at("make_ms") / kMake_ms, 1, kTolerance);
    EXPECT_GT(row.counters.at("device_idle_share"), 1 - kTolerance);
    EXPECT_EQ(row.finding, "bound by the producers");
    EXPECT_EQ(row.fault, "");
  }
}

}  // namespace
}  // namespace overlapbench
