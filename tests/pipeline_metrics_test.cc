// The arithmetic of a pipeline, on cases that can be followed by hand, and on random ones through
// what must hold for all of them. Times in milliseconds.
#include "fixtures/pipeline_metrics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "workload/data.h"

namespace overlapbench {
namespace {

constexpr DuplexSlowdowns kNone = {1, 1};
constexpr double kRounding = 1e-12;  // of a sum of some hundred steps, relative

TEST(IdealPipeline, OfOnePartIsTheSumOfItsStages) {
  EXPECT_DOUBLE_EQ(IdealPipeline_ms({3, 5, 2}, 1), 10);
}

// Parts of 1, 2 and 0.5: the first leaves at 3.5, and then one every 2.
TEST(IdealPipeline, IsFillAndDrainAndTheSlowestStage) {
  EXPECT_DOUBLE_EQ(IdealPipeline_ms({4, 8, 2}, 4), 9.5);
  EXPECT_DOUBLE_EQ(IdealPipeline_ms({8, 2, 4}, 4), 9.5);
  EXPECT_DOUBLE_EQ(IdealPipeline_ms({2, 4, 8}, 4), 9.5);
}

TEST(IdealPipeline, OfEqualStagesComesNearAThird) {
  EXPECT_DOUBLE_EQ(IdealPipeline_ms({3, 3, 3}, 3), 5);
  EXPECT_DOUBLE_EQ(IdealPipeline_ms({3, 3, 3}, 600), 3.01);
}

TEST(IdealPipeline, OfOneStageGainsNothing) {
  for (const int parts : {1, 2, 16}) EXPECT_DOUBLE_EQ(IdealPipeline_ms({0, 8, 0}, parts), 8);
}

TEST(DuplexPipeline, OfOnePartIsTheSumOfItsStages) {
  EXPECT_DOUBLE_EQ(DuplexPipeline_ms({3, 5, 2}, {4, 4}, 1), 10);
}

// Parts of 1 and 1. At 1 the second comes in while the first goes out: both take 2 and not 1. At 3
// the second goes out alone.
TEST(DuplexPipeline, CopiesThatMeetTakeLonger) {
  EXPECT_DOUBLE_EQ(DuplexPipeline_ms({2, 0, 2}, kNone, 2), 3);
  EXPECT_DOUBLE_EQ(DuplexPipeline_ms({2, 0, 2}, {2, 2}, 2), 4);
}

// Parts of 2, 1 and 2. The second comes in alone from 2 to 3, is half done when the first starts
// out, and needs 2 more beside it, to 5; computed to 6, out to 8.
TEST(DuplexPipeline, ACopyIsSlowedOnlyWhileItIsNotAlone) {
  EXPECT_DOUBLE_EQ(DuplexPipeline_ms({4, 2, 4}, kNone, 2), 7);
  EXPECT_DOUBLE_EQ(DuplexPipeline_ms({4, 2, 4}, {2, 1}, 2), 8);
}

// Parts of 2, 1 and 2. The first goes out from 3 on, a quarter of it until the second is in at 4,
// and the rest alone until 5.5; the second, computed at 5, follows until 7.5.
TEST(DuplexPipeline, EachDirectionHasItsOwnSlowdown) {
  EXPECT_DOUBLE_EQ(DuplexPipeline_ms({4, 2, 4}, {1, 2}, 2), 7.5);
}

// Parts of 1, 3 and 1: all is in at 2, the first goes out at 4.
TEST(DuplexPipeline, CopiesThatNeverMeetTakeNoLonger) {
  EXPECT_DOUBLE_EQ(DuplexPipeline_ms({2, 6, 2}, {3, 3}, 2), 8);
}

TEST(DuplexPipeline, EndsWhereAStageTakesNoTime) {
  EXPECT_DOUBLE_EQ(DuplexPipeline_ms({0, 8, 0}, {2, 2}, 4), 8);
  EXPECT_DOUBLE_EQ(DuplexPipeline_ms({8, 0, 0}, {2, 2}, 4), 8);
  EXPECT_DOUBLE_EQ(DuplexPipeline_ms({0, 0, 8}, {2, 2}, 4), 8);
  EXPECT_DOUBLE_EQ(DuplexPipeline_ms({0, 0, 0}, {2, 2}, 4), 0);
}

TEST(DuplexPipeline, TakesLongerTheMoreTheCopiesHoldEachOtherUp) {
  double before_ms = 0;
  for (const double slowdown : {1.0, 1.1, 1.25, 1.5, 2.0, 3.0}) {
    const double time_ms = DuplexPipeline_ms({4, 2, 4}, {slowdown, slowdown}, 8);
    EXPECT_GT(time_ms, before_ms) << slowdown;
    before_ms = time_ms;
  }
}

struct Drawn {
  StageTimes stages;
  DuplexSlowdowns slowdowns;
  int parts = 0;
};

// Calls check(drawn) for many pipelines: stages of a microsecond to a second, some of no time.
template <class Check>
void ForManyPipelines(const Check& check) {
  long index = 0;  // of the next random number; they are the same in every run
  const auto uniform = [&](double least, double most) {
    return least + (most - least) * std::ldexp(Random(1, index++), -32);
  };
  const auto stage = [&] { return uniform(0, 8) < 1 ? 0.0 : std::pow(10, uniform(-3, 3)); };
  for (int i = 0; i < 2000; ++i) {
    const StageTimes stages = {stage(), stage(), stage()};
    const DuplexSlowdowns slowdowns = {uniform(1, 3), uniform(1, 3)};
    const Drawn drawn = {stages, slowdowns, static_cast<int>(uniform(1, 65))};
    SCOPED_TRACE(std::to_string(stages.in_ms) + " + " + std::to_string(stages.compute_ms) + " + " +
                 std::to_string(stages.out_ms) + " ms in " + std::to_string(drawn.parts) +
                 " parts");
    check(drawn);
    if (testing::Test::HasFailure()) return;
  }
}

TEST(DuplexPipeline, IsTheIdealWhereCopiesDoNotHoldEachOtherUp) {
  ForManyPipelines([](const Drawn& drawn) {
    const double ideal_ms = IdealPipeline_ms(drawn.stages, drawn.parts);
    EXPECT_NEAR(DuplexPipeline_ms(drawn.stages, kNone, drawn.parts), ideal_ms,
                ideal_ms * kRounding);
  });
}

// At best no copy is slowed, at worst each one always.
TEST(DuplexPipeline, LiesBetweenTheIdealAndThatOfSlowCopies) {
  ForManyPipelines([](const Drawn& drawn) {
    const StageTimes slow = {drawn.stages.in_ms * drawn.slowdowns.in, drawn.stages.compute_ms,
                             drawn.stages.out_ms * drawn.slowdowns.out};
    const double time_ms = DuplexPipeline_ms(drawn.stages, drawn.slowdowns, drawn.parts);
    EXPECT_GE(time_ms, IdealPipeline_ms(drawn.stages, drawn.parts) * (1 - kRounding));
    EXPECT_LE(time_ms, IdealPipeline_ms(slow, drawn.parts) * (1 + kRounding));
  });
}

}  // namespace
}  // namespace overlapbench
