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
  EXPECT_DOUBLE_EQ(EstimateClassically(0, 15, 40).total_ms, 0);
  EXPECT_DOUBLE_EQ(EstimateClassically(0, 15, 40).speedup, 0);
}

// As their authors publish them.
TEST(Models, HaveTheirSizesUnlessOthersAreGiven) {
  struct Sizes {
    const char* model;
    long hidden, ffn, heads;
  };
  for (const auto& [model, hidden, ffn, heads] :
       {Sizes{"llama8b", 4096, 14336, 32}, {"llama70b", 8192, 28672, 64}, {"small", 256, 768, 2}}) {
    const Settings settings = Settings().With("model", model).With("heads", "model");
    EXPECT_EQ(ModelOf(settings).hidden, hidden);
    EXPECT_EQ(ModelOf(settings).ffn, ffn);
    EXPECT_EQ(ModelOf(settings).heads, heads);
    const Model own = ModelOf(settings.With("hidden", "96").With("ffn", "7").With("heads", "5"));
    EXPECT_EQ(own.hidden, 96);
    EXPECT_EQ(own.ffn, 7);
    EXPECT_EQ(own.heads, 5);
  }
}

// Kernels read 8 columns at a time, and a product 16 elements of a token.
TEST(Models, AreRefusedWhereRanksCannotShareThem) {
  const auto refused = [](const char* hidden, const char* ffn, const char* heads, int ranks) {
    return ExcludedModel(Settings()
                             .With("model", "small")
                             .With("hidden", hidden)
                             .With("ffn", ffn)
                             .With("heads", heads),
                         ranks);
  };
  EXPECT_EQ(refused("16", "24", "3", 3), "");
  EXPECT_EQ(refused("8", "24", "3", 3), "hidden must be a multiple of 16");
  EXPECT_EQ(refused("16", "25", "3", 3), "ffn:25 must be a multiple of the 3 ranks");
  EXPECT_EQ(refused("16", "12", "3", 3), "ffn must give every rank a multiple of 8 columns");
  EXPECT_EQ(refused("16", "24", "4", 3), "heads:4 must be a multiple of the 3 ranks");
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
