// How much patterns of training steps can hide at most, from the times of their steps: their waits
// are where they must be, and nowhere else.
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "scenarios.h"

namespace overlapbench {
namespace {

// With four layers. Each step takes the time given here for its work, or none.
double BoundOfPattern(const char* scenario, Values values,
                      const std::map<std::string, double>& step_ms) {
  values.insert({"layers", "4"});
  const auto runs = ScenarioReport(scenario, values).runs();
  const Schedule& schedule = runs.back().schedule;
  std::vector<double> each_ms;
  for (const Schedule::Step& step : schedule.steps())
    each_ms.push_back(step_ms.contains(step.work->name) ? step_ms.at(step.work->name) : 0);
  return BoundOf(schedule, each_ms).total_ms;
}

TEST(DoubleBuffer, WaitsForTheSumOfItsBuffersPreviousContents) {
  for (const char* tie : {"events", "host"}) {
    const auto bound_ms = [&](const char* buffers, double sum_ms) {
      return BoundOfPattern("Layers/DoubleBuffer", {{"buffers", buffers}, {"tie", tie}},
                            {{"compute", 2}, {"sum", sum_ms}});
    };
    EXPECT_EQ(bound_ms("1", 1), 4 * 3) << "nothing overlaps";
    EXPECT_EQ(bound_ms("2", 1), 4 * 2 + 1) << "all but the last sum is hidden";
    EXPECT_EQ(bound_ms("2", 3), 2 + 4 * 3) << "all but the first layer is hidden";
    EXPECT_EQ(bound_ms("3", 1), 4 * 2 + 1);
  }
}

TEST(CrossLayer, HidesSumsBehindIndependentTokens) {
  const auto bound_ms = [](const char* independent, double free_ms) {
    return BoundOfPattern("Layers/CrossLayer", {{"independent", independent}},
                          {{"free", free_ms}, {"tied", 4 - free_ms}, {"sum", 2}});
  };
  EXPECT_EQ(bound_ms("0", 0), 4 * (4 + 2)) << "nothing overlaps";
  EXPECT_EQ(bound_ms("25", 1), 4 * (4 + 2) - 3 * 1);
  EXPECT_EQ(bound_ms("75", 3), 4 * 4 + 2) << "all but the last sum is hidden";
}

TEST(MixedPrecision, HidesAllButTheLastLayersWork) {
  const auto bound_ms = [](const char* conversion, double update_ms) {
    return BoundOfPattern("MixedPrecision/Step", {{"conversion", conversion}},
                          {{"backward", 4}, {"update", update_ms}, {"convert", 1}});
  };
  EXPECT_EQ(bound_ms("hidden", 2), 4 * 4 + 2 + 1);
  EXPECT_EQ(bound_ms("exposed", 2), 4 * 4 + 4 * 1) << "the last update beside conversions";
  EXPECT_EQ(bound_ms("hidden", 6), 4 + 4 * (6 + 1));
  EXPECT_EQ(bound_ms("exposed", 6), 4 + 4 * 6 + 1) << "all but the last conversion beside updates";
}

// With many workers, copying or computing is the bound once the first of eight batches is made.
// Copies pause while two batches wait to be used.
TEST(Prefetch, GoesFromStarvingToSaturated) {
  const auto bound_ms = [](const char* workers, double copy_ms, double compute_ms) {
    return BoundOfPattern("Prefetch/Batches", {{"workers", workers}, {"supply_batches", "8"}},
                          {{"make", 4}, {"copy", copy_ms}, {"compute", compute_ms}});
  };
  EXPECT_EQ(bound_ms("1", 1, 2), 8 * 4 + 1 + 2) << "bound by the producers";
  EXPECT_EQ(bound_ms("8", 1, 2), 4 + 1 + 8 * 2) << "bound by computing";
  EXPECT_EQ(bound_ms("8", 2, 1), 4 + 8 * 2 + 1) << "bound by copying";
}

// A producer makes the next batch while this one is used, but not before it is copied.
TEST(Prefetch, ProducersWaitForRoom) {
  const auto bound_ms = [](const char* prefetch) {
    return BoundOfPattern("Prefetch/Batches",
                          {{"workers", "1"}, {"prefetch", prefetch}, {"supply_batches", "8"}},
                          {{"make", 4}, {"copy", 1}, {"compute", 2}});
  };
  EXPECT_EQ(bound_ms("1"), 8 * (4 + 1) + 2);
  EXPECT_EQ(bound_ms("2"), 8 * 4 + 1 + 2);
}

}  // namespace
}  // namespace overlapbench
