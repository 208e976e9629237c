// The slow rank is found, and waiting for others is not taken for work.
#include "fixtures/rank_times.h"

#include <gtest/gtest.h>

namespace overlapbench {
namespace {

using Samples = std::vector<std::vector<RankSample>>;

// Rank 1 comes 3 ms late; rank 0 has waited for it.
TEST(RankTimesTest, WaitingForALateRankIsNotWork) {
  const Samples samples(3, {{100, 5}, {103, 2}});
  const RankTimes times = SummarizeRanks(samples, true);
  EXPECT_DOUBLE_EQ(times.ranks[0].time_ms, 5);
  EXPECT_DOUBLE_EQ(times.ranks[0].work_ms, 2);
  EXPECT_DOUBLE_EQ(times.ranks[1].work_ms, 2);
  EXPECT_DOUBLE_EQ(times.ranks[0].late_us, 0);
  EXPECT_DOUBLE_EQ(times.ranks[1].late_us, 3000);
  EXPECT_DOUBLE_EQ(times.spread, 0);
  EXPECT_EQ(times.slowest, 0) << "the first of equal ones";
  EXPECT_EQ(times.slowest_share, 1);
}

TEST(RankTimesTest, TheSpreadIsRelativeHoweverShortTheTimes) {
  EXPECT_DOUBLE_EQ(SummarizeRanks(Samples(1, {{0, 0.25}, {0, 0.5}}), false).spread, 2. / 3);
  EXPECT_EQ(SummarizeRanks(Samples(1, {{0, 0}, {0, 0}}), false).spread, 0);
}

TEST(RankTimesTest, WithoutCommunicationAllTimeIsWork) {
  const RankTimes times = SummarizeRanks(Samples(3, {{100, 5}, {103, 2}}), false);
  EXPECT_DOUBLE_EQ(times.ranks[0].work_ms, 5);
  EXPECT_EQ(times.slowest, 0);
}

TEST(RankTimesTest, NamesTheSlowestRankAndItsShare) {
  const Samples samples = {{{0, 1}, {0, 4}, {0, 2}},
                           {{0, 1}, {0, 4}, {0, 2}},
                           {{0, 1}, {0, 4}, {0, 2}},
                           {{0, 9}, {0, 4}, {0, 2}}};
  const RankTimes times = SummarizeRanks(samples, true);
  EXPECT_EQ(times.slowest, 1);
  EXPECT_DOUBLE_EQ(times.slowest_share, 0.75);
  EXPECT_DOUBLE_EQ(times.spread, (4.0 - 1.0) / 2.0);
}

TEST(RankTimesTest, WritesOneLinePerRank) {
  const RankTimes times = SummarizeRanks(Samples(1, {{0, 1}, {0.5, 2}}), false);
  EXPECT_EQ(RankTimesLines("Comm/Ring", times, {"a", "b"}),
            "Comm/Ring,0,a,1,0,1\nComm/Ring,1,b,2,500,2\n");
  EXPECT_EQ(RankTimesHeader(), "name,rank,host,time_ms,late_us,work_ms\n");
}

}  // namespace
}  // namespace overlapbench
