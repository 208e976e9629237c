// The arithmetic of overlap, on pairs of runs whose truth is known: in milliseconds, computation of
// 4 beside communication of 2.
//
// A run is described by when each stream was free to start and when its work was done, since that
// is all that events tell. Whether the sides ran together must be found out from there.
#include "fixtures/overlap_metrics.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace overlapbench {
namespace {

constexpr double kComp_ms = 4;
constexpr double kComm_ms = 2;

OverlapTimes Overlapped(SideTimes comp, SideTimes comm) {
  OverlapTimes times;
  times.comp_ms = kComp_ms;
  times.comm_ms = kComm_ms;
  times.comp_alone = {0, kComp_ms};
  times.comm_alone = {0, kComm_ms};
  times.comp = comp;
  times.comm = comm;
  times.overlap_ms = std::max(comp.end_ms, comm.end_ms);
  return times;
}

TEST(OverlapMetrics, OfPerfectOverlap) {
  const OverlapMetrics metrics = ComputeOverlapMetrics(Overlapped({0, 4}, {0, 2}));
  EXPECT_DOUBLE_EQ(metrics.slowdown, 1);
  EXPECT_DOUBLE_EQ(metrics.speedup, 1.5);
  EXPECT_DOUBLE_EQ(metrics.efficiency, 1);
  EXPECT_DOUBLE_EQ(metrics.hidden_comm, 1);
  EXPECT_DOUBLE_EQ(metrics.comp_slowdown, 1);
  EXPECT_DOUBLE_EQ(metrics.comm_slowdown, 1);
  EXPECT_DOUBLE_EQ(metrics.exposed_comm_ms, 0);
  EXPECT_DOUBLE_EQ(metrics.coverage, 1);
}

TEST(OverlapMetrics, OfOneAfterTheOtherOnOneStream) {
  const OverlapMetrics metrics = ComputeOverlapMetrics(Overlapped({2, 6}, {0, 2}));
  EXPECT_DOUBLE_EQ(metrics.slowdown, 1.5);
  EXPECT_DOUBLE_EQ(metrics.speedup, 1);
  EXPECT_DOUBLE_EQ(metrics.efficiency, 0);
  EXPECT_DOUBLE_EQ(metrics.hidden_comm, 0);
  EXPECT_DOUBLE_EQ(metrics.exposed_comm_ms, 2);
  EXPECT_DOUBLE_EQ(metrics.coverage, 0);
}

// Both at once, but each so slowed that one after the other would have been quicker.
TEST(OverlapMetrics, OfHarmfulOverlapAreNotClamped) {
  const OverlapMetrics metrics = ComputeOverlapMetrics(Overlapped({0, 8}, {0, 8}));
  EXPECT_DOUBLE_EQ(metrics.slowdown, 2);
  EXPECT_DOUBLE_EQ(metrics.speedup, 0.75);
  EXPECT_DOUBLE_EQ(metrics.efficiency, -1);
  EXPECT_DOUBLE_EQ(metrics.hidden_comm, -1);
  EXPECT_DOUBLE_EQ(metrics.comp_slowdown, 2);
  EXPECT_DOUBLE_EQ(metrics.comm_slowdown, 4);
  EXPECT_DOUBLE_EQ(metrics.exposed_comm_ms, 4);
  EXPECT_GT(metrics.coverage, 0.7);
}

// T below max(C, M) is possible (the report's 0.91) and must not be hidden.
TEST(OverlapMetrics, OfAGainAreNotClamped) {
  const OverlapMetrics metrics = ComputeOverlapMetrics(Overlapped({0, 3.6}, {0, 1.8}));
  EXPECT_DOUBLE_EQ(metrics.slowdown, 0.9);
  EXPECT_DOUBLE_EQ(metrics.efficiency, 1.2);
}

TEST(Coverage, SeesASecondKernelThatWaitedForTheFirst) {
  // Both streams were free at 0, but the second kernel found no SM before the first had ended.
  EXPECT_LT(Coverage(Overlapped({0, 6}, {0, 2})), kLeastCoverage);
  EXPECT_LT(Coverage(Overlapped({0, 4}, {0, 6})), kLeastCoverage);
}

TEST(Coverage, CountsTimeInWhichTheFirstWasHeldUp) {
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
  OverlapTimes times = Overlapped({0, 100}, {0, 0.5});
  times.comp_alone = {0, 100};
  times.comm_alone = {0, 0.5};
  EXPECT_DOUBLE_EQ(Coverage(times), 1);
  // Even when it ran first and alone: 0.5 ms cannot be told from the noise of 100 ms.
  times.comp.end_ms = 100.5;
  EXPECT_DOUBLE_EQ(Coverage(times), 1);
  // Streams that were never free together need no such guess.
  times.comp.begin_ms = 0.5;
  EXPECT_DOUBLE_EQ(Coverage(times), 0);
}

TEST(FreeTogether, TellsOneStreamFromADeviceThatDidNotRunBoth) {
  EXPECT_DOUBLE_EQ(FreeTogether(Overlapped({0, 4}, {0, 2})), 1);
  EXPECT_DOUBLE_EQ(FreeTogether(Overlapped({0, 6}, {0, 2})), 1);  // serialized by the device
  EXPECT_DOUBLE_EQ(FreeTogether(Overlapped({2, 6}, {0, 2})), 0);  // on one stream
  EXPECT_DOUBLE_EQ(FreeTogether(Overlapped({3, 7}, {0, 2})), 0);  // never below
  EXPECT_DOUBLE_EQ(FreeTogether(Overlapped({0.5, 4.5}, {0, 2})), 0.75);
}

TEST(Coverage, IsAShare) {
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
  OverlapTimes times = Overlapped({0, 5}, {0.25, 3});
  OverlapTimes swapped = times;
  std::swap(swapped.comp, swapped.comm);
  std::swap(swapped.comp_alone, swapped.comm_alone);
  EXPECT_DOUBLE_EQ(Coverage(times), Coverage(swapped));
}

}  // namespace
}  // namespace overlapbench
