// The clock that all ranks share, on one machine and on two.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <thread>

#include "test_ranks.h"

namespace overlapbench {
namespace {

using std::chrono_literals::operator""ms;
using Clock = std::chrono::steady_clock;

bool& HasTwoMachines() {
  static bool has_two = false;
  return has_two;
}

// By how much this rank's machine is ahead.
Clock::duration& Ahead() {
  static Clock::duration ahead{};
  return ahead;
}

}  // namespace

// MPI's interface for profilers: it takes the place of its own function. One machine has rank 0,
// and the other all others.
extern "C" int MPI_Comm_split_type(MPI_Comm comm, int split_type, int key, MPI_Info info,
                                   MPI_Comm* newcomm) {
  if (HasTwoMachines()) return PMPI_Comm_split(comm, ByLauncher().rank == 0 ? 0 : 1, key, newcomm);
  return PMPI_Comm_split_type(comm, split_type, key, info, newcomm);
}

// The linker puts it in the place of the steady clock's.
Clock::time_point RealNow() asm("__real__ZNSt6chrono3_V212steady_clock3nowEv");
Clock::time_point FakeNow() asm("__wrap__ZNSt6chrono3_V212steady_clock3nowEv");
Clock::time_point FakeNow() { return RealNow() + Ahead(); }

namespace {

TEST_F(RanksTest, RanksShareAClock) {
  ranks().Barrier("the test");
  const double now_ms = ranks().OnCommonClockMs(NowMs());
  std::array spread = {now_ms, -now_ms};
  ranks().Max(spread, "the test");
  EXPECT_LT(spread[0] + spread[1], 1000) << "ms between ranks of one machine";
}

// Each has the offset of the first rank of its machine.
TEST_F(RanksTest, RanksOfTwoMachinesShareAClock) {
  HasTwoMachines() = true;
  if (rank() > 0) Ahead() = std::chrono::hours(1);
  {
    Progress progress(rank(), size());
    Ranks others(kRanksPatience, progress);
    EXPECT_EQ(others.local_rank(), rank() == 0 ? 0 : rank() - 1);
    EXPECT_EQ(others.local_size(), rank() == 0 ? 1 : size() - 1);
    others.Barrier("the test");
    const double now_ms = others.OnCommonClockMs(NowMs());
    std::array spread = {now_ms, -now_ms};
    others.Max(spread, "the test");
    EXPECT_LT(spread[0] + spread[1], 5000) << "ms between ranks";
  }
  Ahead() = {};
  HasTwoMachines() = false;
}

// As of machines whose clocks are an hour apart.
TEST_F(RanksTest, ClockOffsetsBetweenMachinesAreMeasured) {
  constexpr double kHour_ms = 3.6e6;
  const auto skewed_ms = [&] { return NowMs() + kHour_ms * rank(); };
  const double offset_ms = ClockOffsetMs(ranks(), MPI_COMM_WORLD, skewed_ms);
  EXPECT_NEAR(offset_ms, -kHour_ms * rank(), 1000) << "ms, half of the quickest exchange";
}

// The offset is rank 0's time less the middle of the exchange.
TEST_F(RanksTest, AClockOffsetExcludesTheTravelTime) {
  const auto far_away_ms = [&] {
    if (rank() > 0) return NowMs();
    std::this_thread::sleep_for(20ms);
    const double now_ms = NowMs();
    std::this_thread::sleep_for(20ms);
    return now_ms;
  };
  EXPECT_NEAR(ClockOffsetMs(ranks(), MPI_COMM_WORLD, far_away_ms), 0, 10);
}

// Few exchanges are quick. All others are slow, and only in one direction.
TEST_F(RanksTest, AClockOffsetComesFromTheFastestExchange) {
  int asked = 0;
  const auto mostly_late_ms = [&] {
    if (rank() == 0 && asked++ % 20 >= 5) std::this_thread::sleep_for(60ms);
    return NowMs();
  };
  EXPECT_NEAR(ClockOffsetMs(ranks(), MPI_COMM_WORLD, mostly_late_ms), 0, 20);
  EXPECT_EQ(asked, rank() == 0 ? 20 * (size() - 1) : 0) << "twenty exchanges with each";
}

}  // namespace
}  // namespace overlapbench
