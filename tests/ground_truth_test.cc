// Ground truth: delays of 4 ms and 2 ms, whose overlap is known.
//
// On two streams they overlap perfectly, on one not at all. The whole method is under test: gate,
// events, agreement of ranks, medians, metrics, and the check that marks a pair that did not
// overlap.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "backends.h"
#include "benchmarks/catalog.h"
#include "benchmarks/plan.h"
#include "fixtures/baseline_fixture.h"
#include "fixtures/overlap_fixture.h"
#include "fixtures/statistics.h"
#include "test_ranks.h"

namespace overlapbench {
namespace {

constexpr int kGroups = 101;
constexpr int kStreamingGroups = 15;  // of twenty delays each
constexpr double kDelay_ms = 4;

struct Tolerances {
  double slowdown_together;
  double slowdown_in_turn;
  double efficiency;
};
constexpr Tolerances kHostTolerances = {0.02, 0.03, 0.05};
constexpr Tolerances kCudaTolerances = {0.01, 0.01, 0.01};

// Lets a test see what a row would report.
class ReportingFixture : public OverlapFixture {
 public:
  using OverlapFixture::OverlapFixture;
  using OverlapFixture::Report;
};

class GroundTruthTest : public RanksOnEachBackend {
 protected:
  struct Result {
    double slowdown = 0;
    double efficiency = 0;
    std::string fault;
  };

  void SetUp() override {
    RanksOnEachBackend::SetUp();
    if (IsSkipped()) return;
    machine_ = std::make_unique<Machine>(Machine{device(), TestRanks()});
    FillRegistry(registry_, *machine_);
  }

  template <class Fixture>
  Configuration Configure(const Case& one) {
    Plan plan(registry_, GetParam(), {});
    plan.Add<Fixture>("Overlap", one);
    return plan.benchmarks().at(0).configuration;
  }

  static std::vector<Group> Measure(Session& session, int count) {
    std::vector<Group> groups;
    for (int i = 0; i < count; ++i) groups.push_back(session.Measure());
    return groups;
  }

  Result MeasurePair(const std::string& streams) {
    const Configuration configuration = Configure<OverlapFixture>(
        {"SecondDelay", "Delay", {{"streams", streams}, {"cache", "warm"}}});
    const Options options;
    Suite suite{*machine_,
                options,
                std::make_unique<Session>(*machine_, configuration, options.gate),
                {},
                0};
    ReportingFixture fixture(suite, configuration);
    benchmark::UserCounters counters;
    const auto remark = fixture.Report(Measure(*suite.session, kGroups), counters);
    return {counters["slowdown"], counters["efficiency"], remark.fault};
  }

  std::vector<double> MeasureAlone(const std::string& cadence, int count) {
    const Configuration configuration =
        Configure<BaselineFixture>({"", "Delay", {{"cadence", cadence}, {"cache", "warm"}}});
    Session session(*machine_, configuration, true);
    return Totals_ms(Measure(session, count), 0);
  }

  [[nodiscard]] const Tolerances& tolerances() const {
    return GetParam() == Backend::kHost ? kHostTolerances : kCudaTolerances;
  }

 private:
  std::unique_ptr<Machine> machine_;
  Registry registry_;
};
INSTANTIATE_ON_EACH_BACKEND(GroundTruthTest);

TEST_P(GroundTruthTest, TwoStreamsOverlapPerfectly) {
  const Result result = MeasurePair("2");
  EXPECT_NEAR(result.slowdown, 1.0, tolerances().slowdown_together);
  EXPECT_NEAR(result.efficiency, 1.0, tolerances().efficiency);
  EXPECT_EQ(result.fault, "");
}

TEST_P(GroundTruthTest, OneStreamDoesNotOverlapAndIsMarked) {
  const Result result = MeasurePair("1");
  EXPECT_NEAR(result.slowdown, 1.5, tolerances().slowdown_in_turn);
  EXPECT_NEAR(result.efficiency, 0.0, tolerances().efficiency);
  EXPECT_EQ(result.fault.find("not overlapped"), 0U) << result.fault;
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

}  // namespace
}  // namespace overlapbench
