// Whether two sides ran together, on pairs of runs whose truth is known: in milliseconds,
// computation of 4 beside communication of 2.
//
// A run consists of the times when each stream was free to start and when its work was done, since
// events record nothing else. Coverage must infer from these whether the sides ran together.
#include "fixtures/coverage.h"

#include <gtest/gtest.h>

#include <utility>

namespace overlapbench {
namespace {

constexpr double kComp_ms = 4;
constexpr double kComm_ms = 2;

Sides Overlapped(TimeSpan comp, TimeSpan comm) {
  Sides sides;
  sides.one_alone = {0, kComp_ms};
  sides.other_alone = {0, kComm_ms};
  sides.one = comp;
  sides.other = comm;
  return sides;
}

TEST(Coverage, SeesASecondKernelThatWaitedForTheFirst) {
  // Both streams were free at 0, but the second kernel found no SM before the first had ended.
  EXPECT_LT(Coverage(Overlapped({0, 6}, {0, 2})), kLeastCoverage);
  EXPECT_LT(Coverage(Overlapped({0, 4}, {0, 6})), kLeastCoverage);
}

TEST(Coverage, CountsTheTimeThatTheFirstSideWasSlowedDown) {
  // The communication took 4 instead of 2 while the computation went on, and the computation then 2
  // more.
  EXPECT_GE(Coverage(Overlapped({0, 6}, {0, 4})), 0.5);
}

// The later side gets its SMs `wait_ms` after the start and then runs undisturbed.
TEST(Coverage, FollowsAnIdealisedLateStart) {
  constexpr int kSteps = 16;
  for (int step = 0; step <= kSteps; ++step) {
    const double wait_ms = kComm_ms * step / kSteps;
    const double truth = 1 - wait_ms / kComm_ms;
    const double noise = kSoloNoise * kComp_ms / kComm_ms;
    const double coverage = Coverage(Overlapped({0, kComp_ms + wait_ms}, {0, kComm_ms}));
    EXPECT_GE(coverage, truth) << "after a wait of " << wait_ms << " ms";
    EXPECT_LE(coverage, truth + noise + 1e-12) << "after a wait of " << wait_ms << " ms";
  }
}

TEST(Coverage, GivesATinySideTheBenefitOfTheDoubt) {
  Sides sides = Overlapped({0, 100}, {0, 0.5});
  sides.one_alone = {0, 100};
  sides.other_alone = {0, 0.5};
  EXPECT_DOUBLE_EQ(Coverage(sides), 1);
  // Even when it ran first and alone: 0.5 ms cannot be told from the noise of 100 ms.
  sides.one.end_ms = 100.5;
  EXPECT_DOUBLE_EQ(Coverage(sides), 1);
  // Streams that were never free together need no such guess.
  sides.one.begin_ms = 0.5;
  EXPECT_DOUBLE_EQ(Coverage(sides), 0);
}

TEST(FreeTogether, DistinguishesOneStreamFromADeviceThatDidNotRunBoth) {
  EXPECT_DOUBLE_EQ(FreeTogether(Overlapped({0, 4}, {0, 2})), 1);
  EXPECT_DOUBLE_EQ(FreeTogether(Overlapped({0, 6}, {0, 2})), 1);  // serialized by the device
  EXPECT_DOUBLE_EQ(FreeTogether(Overlapped({2, 6}, {0, 2})), 0);  // on one stream
  EXPECT_DOUBLE_EQ(FreeTogether(Overlapped({3, 7}, {0, 2})), 0);  // never below
  EXPECT_DOUBLE_EQ(FreeTogether(Overlapped({0.5, 4.5}, {0, 2})), 0.75);
}

// Of sides that end together, the computation counts as the first. One that took no time was beside
// nothing.
TEST(FreeTogether, IsOfTheComputationIfBothEndTogether) {
  EXPECT_DOUBLE_EQ(FreeTogether(Overlapped({1, 4}, {0, 4})), 1);
  EXPECT_DOUBLE_EQ(FreeTogether(Overlapped({0, 4}, {1, 4})), 0.75);
  EXPECT_EQ(FreeTogether(Overlapped({2, 2}, {0, 4})), 0);
}

TEST(Coverage, IsOfTheComputationIfBothEndTogether) {
  // 2 · 1.02 − 0 of the communication's work lay before the end, in 4 of the computation's time.
  EXPECT_DOUBLE_EQ(Coverage(Overlapped({0, 4}, {0, 4})), 2.04 / 4);
  EXPECT_EQ(Coverage(Overlapped({2, 2}, {0, 4})), 0);
}

TEST(Coverage, LiesBetweenZeroAndOne) {
  // In half milliseconds.
  for (int comp_begin = 0; comp_begin <= 12; ++comp_begin) {
    for (int comp_end = comp_begin; comp_end <= 24; ++comp_end) {
      for (int comm_end = 0; comm_end <= 24; ++comm_end) {
        const double coverage =
            Coverage(Overlapped({comp_begin / 2.0, comp_end / 2.0}, {0, comm_end / 2.0}));
        ASSERT_GE(coverage, 0) << comp_begin << " " << comp_end << " " << comm_end;
        ASSERT_LE(coverage, 1) << comp_begin << " " << comp_end << " " << comm_end;
      }
    }
  }
}

TEST(Coverage, DoesNotDependOnWhichSideIsWhich) {
  Sides sides = Overlapped({0, 5}, {0.25, 3});
  Sides swapped = sides;
  std::swap(swapped.one, swapped.other);
  std::swap(swapped.one_alone, swapped.other_alone);
  EXPECT_DOUBLE_EQ(Coverage(sides), Coverage(swapped));
}

}  // namespace
}  // namespace overlapbench
