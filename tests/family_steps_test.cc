// The steps of training families on any number of ranks: every row is set up, and verifies itself.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>

#include "benchmarks/catalog.h"
#include "benchmarks/plan.h"
#include "fixtures/measurement.h"
#include "test_ranks.h"

namespace overlapbench {
namespace families {
Family DdpBatch();
Family DdpBuckets();
Family FsdpPrefetch();
Family MoeDispatchCombine();
Family Layers();
Family MixedPrecision();
Family Prefetch();
Family Tp();
Family TpBlock();
}  // namespace families
namespace {

class StepsTest : public RanksOnEachBackend {
 protected:
  static int ranks() { return TestRanks().size(); }
  static int transports() { return GetParam() == Backend::kHost ? 1 : 2; }
  // Sets every row of a family up that exists at these values; returns how many there are.
  int SetUpRows(Family (*family)(), const Values& values) {
    Registry registry;
    FillRegistry(registry, machine());
    const Catalog catalog{registry, device(), machine()};
    int rows = 0;
    for (Scenario& scenario : family().scenarios(catalog)) {
      if (!scenario.missing.empty()) continue;
      SetValues(scenario.axes, values);
      AppendAxes(scenario.axes, SampleAxes());
      for (const Settings& settings : Combinations(scenario.axes)) {
        if (!scenario.excluded(settings).empty()) continue;
        const std::string name = scenario.name + settings.NameSuffix();
        SCOPED_TRACE(name);
        Session session(machine(), {name, settings, scenario.runs, {}});
        EXPECT_NO_THROW(session.SetUp(true));
        EXPECT_LE(session.max_rel_err(), 0.1);
        // In float32, sums of fractions are exact in any order. An oracle follows the row's own
        // moves, right or wrong; the plain form has others.
        if (GetParam() == Backend::kHost) {
          EXPECT_TRUE(Measurement(session, {session.Measure()}).Identical("sequential", "pattern"));
        }
        ++rows;
      }
    }
    return rows;
  }
};
INSTANTIATE_ON_EACH_BACKEND(StepsTest);

// On the host: three ranks tell what two tell, where scenario_runs_test measures such rows.
class StepsOnThreeRanksTest : public StepsTest {
 protected:
  void SetUp() override {
    StepsTest::SetUp();
    if (GetParam() == Backend::kHost && ranks() == 2) GTEST_SKIP() << "set up on three ranks";
  }
};
INSTANTIATE_ON_EACH_BACKEND(StepsOnThreeRanksTest);

TEST_P(StepsTest, TensorParallelLayersAreCorrect) {
  const int rows =
      SetUpRows(&families::Tp, {{"model", "small"},
                                {"tokens", std::to_string(12 * ranks())},
                                {"chunks", fmt::format("1,{},{}", ranks(), 3 * ranks())},
                                {"reduce", "scatter,all"},
                                {"sums", "auto,direct"},
                                {"cache", "warm"}});
  // By copy, three ranks cannot share the sum of a chunk of four tokens.
  const int refused = ranks() == 3 && transports() == 2 ? 1 : 0;
  EXPECT_EQ(rows, ranks() == 1 ? 0 : 11 * transports() - refused);
}

// One of each family whose sizes the ranks share. Two ranks share every default; those that three
// round are others.
TEST_P(StepsTest, RoundedDefaultsAreCorrectOnThreeRanks) {
  if (ranks() != 3) GTEST_SKIP() << "for three ranks";
  Registry registry;
  FillRegistry(registry, machine());
  int rows = 0;
  for (const Family& family : AllFamilies()) {
    Plan plan({});
    for (Scenario& scenario : family.scenarios({registry, device(), machine()}))
      if (std::ranges::any_of(scenario.axes, [](const Axis& axis) { return axis.unit > 1; }))
        plan.Add(std::move(scenario));
    if (plan.benchmarks().empty()) continue;
    const Benchmark& row = plan.benchmarks().front();
    SCOPED_TRACE(row.name);
    Session session(machine(), row);
    ASSERT_NO_THROW(session.SetUp(true));
    EXPECT_LE(session.max_rel_err(), 0.1);
    EXPECT_EQ(session.knob_fault(), "");
    ++rows;
  }
  EXPECT_GE(rows, 9);
}

// No model has these sizes: 80 elements per token, and 40 columns and a head of 128 on each rank.
TEST_P(StepsTest, TensorParallelLayersOfOtherSizesAreCorrect) {
  const int rows = SetUpRows(&families::Tp, {{"model", "small"},
                                             {"hidden", "80"},
                                             {"ffn", std::to_string(40 * ranks())},
                                             {"tokens", std::to_string(12 * ranks())},
                                             {"chunks", fmt::format("1,{}", ranks())},
                                             {"cache", "warm"}});
  EXPECT_EQ(rows, ranks() == 1 ? 0 : 4 * transports());
}

TEST_P(StepsOnThreeRanksTest, BlocksOfOtherSizesAreCorrect) {
  // Whole tiles of attention on a GPU, and equal shares of its sums by copy.
  const int on_a_gpu = ranks() == 3 ? 768 : 256;
  const int tokens = GetParam() == Backend::kHost ? 48 : on_a_gpu;
  const int rows = SetUpRows(&families::TpBlock, {{"model", "small"},
                                                  {"hidden", "80"},
                                                  {"ffn", std::to_string(40 * ranks())},
                                                  {"heads", std::to_string(ranks())},
                                                  {"layers", "1"},
                                                  {"tokens", std::to_string(tokens)},
                                                  {"sequences", "2"},
                                                  {"microbatches", "1,2"},
                                                  {"cache", "warm"}});
  EXPECT_EQ(rows, ranks() == 1 ? 0 : 4 * transports());
}

TEST_P(StepsOnThreeRanksTest, GradientsInBucketsAreCorrect) {
  const int rows = SetUpRows(&families::DdpBuckets, {{"layers", "5"},
                                                     {"width", std::to_string(48 * ranks())},
                                                     {"tokens", "32"},
                                                     {"first_bucket", "1"},
                                                     {"bucket_bytes", "1,64K,16M"},
                                                     {"cache", "warm"}});
  EXPECT_EQ(rows, ranks() == 1 ? 0 : 3 * transports());
}

TEST_P(StepsOnThreeRanksTest, ShardedLayersAreCorrect) {
  const int rows = SetUpRows(&families::FsdpPrefetch, {{"layers", "5"},
                                                       {"width", std::to_string(48 * ranks())},
                                                       {"tokens", "32"},
                                                       {"prefetch", "0,2,5"},
                                                       {"cache", "warm"}});
  EXPECT_EQ(rows, ranks() == 1 ? 0 : 2 * transports());
}

// With a popular expert that gets every token, ranks whose experts get none, and padding.
TEST_P(StepsOnThreeRanksTest, ExpertsAreCorrect) {
  const int rows =
      SetUpRows(&families::MoeDispatchCombine, {{"layers", "2"},
                                                {"hidden", "48"},
                                                {"tokens", "36"},
                                                {"experts", std::to_string(2 * ranks())},
                                                {"topk", "1,2"},
                                                {"skew", "100"},
                                                {"microbatches", "3"},
                                                {"cache", "warm"}});
  EXPECT_EQ(rows, ranks() == 1 ? 0 : 2 * transports());
}

TEST_P(StepsOnThreeRanksTest, LayersBesideTheirSumsAreCorrect) {
  const int rows = SetUpRows(&families::Layers, {{"layers", "5"},
                                                 {"width", "48"},
                                                 {"tokens", "32"},
                                                 {"independent", "0,25,75"},
                                                 {"buffers", "1,2,7"},
                                                 {"cache", "warm"}});
  EXPECT_EQ(rows, ranks() == 1 ? 0 : (3 + 6) * transports());
}

TEST_P(StepsTest, MixedPrecisionIsCorrect) {
  if (ranks() > 1) GTEST_SKIP() << "its ranks do not communicate";
  const int rows =
      SetUpRows(&families::MixedPrecision,
                {{"layers", "5"}, {"width", "48"}, {"tokens", "32"}, {"cache", "warm"}});
  EXPECT_EQ(rows, 2);
}

TEST_P(StepsTest, PrefetchedBatchesAreCorrect) {
  if (ranks() > 1) GTEST_SKIP() << "its ranks do not communicate";
  const int rows = SetUpRows(&families::Prefetch, {{"workers", "1,3"},
                                                   {"prefetch", "1,2"},
                                                   {"make_us", "20"},
                                                   {"batch_bytes", "4004"},
                                                   {"supply_batches", "1,7"},
                                                   {"cache", "warm"}});
  EXPECT_EQ(rows, 8);
}

TEST_P(StepsOnThreeRanksTest, ManySmallSumsAreCorrect) {
  const int rows = SetUpRows(&families::DdpBatch, {{"tensors", "7"},
                                                   {"bytes", std::to_string(48 * ranks())},
                                                   {"width", "48"},
                                                   {"tokens", "32"},
                                                   {"cache", "warm"}});
  EXPECT_EQ(rows, ranks() == 1 ? 0 : 3);
}

}  // namespace
}  // namespace overlapbench
