// The classical estimate, and the runs that are derived from a plain form and a pattern.
#include "benchmarks/training.h"

#include <gtest/gtest.h>

#include "schedules.h"

namespace overlapbench {
namespace {

TEST(ClassicalEstimate, HidesCommunicationBehindWhatMayOverlap) {
  const auto [total_ms, efficiency, speedup] = EstimateClassically(80, 15, 8);
  EXPECT_DOUBLE_EQ(total_ms, 87);
  EXPECT_NEAR(efficiency, 0.53, 0.005);
  EXPECT_NEAR(speedup, 1.09, 0.005);
}

TEST(ClassicalEstimate, HidesAtMostTheWholeCommunication) {
  EXPECT_DOUBLE_EQ(EstimateClassically(80, 15, 40).total_ms, 80);
  EXPECT_DOUBLE_EQ(EstimateClassically(80, 15, 40).efficiency, 1);
  EXPECT_DOUBLE_EQ(EstimateClassically(80, 0, 40).total_ms, 80);
  EXPECT_DOUBLE_EQ(EstimateClassically(80, 0, 40).efficiency, 0);
  EXPECT_DOUBLE_EQ(EstimateClassically(80, 0, 40).speedup, 1);
}

TEST(TrainingRuns, AreEachWorkAloneBothSidesThePlainFormAndThePattern) {
  const Work gather = WorkOfClass(WorkClass::kComm, "gather");
  const Work compute = WorkOfClass(WorkClass::kCompute, "compute");
  Schedule plain;
  Schedule pattern;
  const std::size_t lane = plain.AddLane({.name = "lane"});
  plain.Add(lane, compute, {.after = {plain.Add(lane, gather)}});
  for (const char* name : {"comm", "comp"}) pattern.AddLane({.name = name});
  for (long i = 0; i < 2; ++i) {
    const std::size_t gathered = pattern.Add(0, gather, {.part = {i, 2}});
    pattern.Add(1, compute, {.part = {i, 2}, .after = {gathered}});
  }
  const auto runs = TrainingRuns(plain, pattern);
  std::vector<std::string> names;
  std::vector<std::size_t> steps;
  for (const auto& run : runs) {
    names.push_back(run.name);
    steps.push_back(run.schedule.steps().size());
  }
  EXPECT_EQ(names, (std::vector<std::string>{"gather", "compute", "computation", "communication",
                                             "chunks", "sequential", "pattern"}));
  EXPECT_EQ(steps, (std::vector<std::size_t>{2, 2, 1, 1, 2, 2, 4}));
}

TEST(TrainingRuns, OmitAnEmptySide) {
  Schedule alone;
  alone.Add(alone.AddLane({.name = "lane"}), WorkOfClass(WorkClass::kCompute, "compute"));
  const auto runs = TrainingRuns(alone, alone);
  EXPECT_EQ(runs.size(), 5U);
  for (const auto& run : runs) EXPECT_NE(run.name, "communication");
}

}  // namespace
}  // namespace overlapbench
