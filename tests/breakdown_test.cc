// The breakdown of a sample's time, from given times: the shares of sets of classes, and
// the causes of idle time.
#include "fixtures/breakdown.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <numeric>
#include <tuple>
#include <vector>

#include "workload/data.h"

namespace overlapbench {
namespace {

constexpr auto kComp = WorkClass::kCompute;
constexpr auto kComm = WorkClass::kComm;
constexpr auto kMem = WorkClass::kMemory;

LaneWork Ran(WorkClass work_class, double begin_ms, double end_ms) {
  return {.work_class = work_class, .begin_ms = begin_ms, .end_ms = end_ms};
}

double Idle_ms(const Breakdown& breakdown, IdleCause cause) { return breakdown.idle_of_ms(cause); }

using Sets = std::array<double, 8>;

TEST(Breakdown, IsEmptyWithoutWork) { EXPECT_EQ(BreakdownOf(5, 7, {}).total_ms(), 0); }

TEST(Breakdown, TwoSidesSideBySide) {
  const Breakdown breakdown = BreakdownOf(0, 0, {Ran(kComp, 0, 4), Ran(kComm, 0, 2)});
  EXPECT_EQ(breakdown.sets_ms, (Sets{0, 2, 0, 2, 0, 0, 0, 0}));
  EXPECT_EQ(breakdown.total_ms(), 4);
}

TEST(Breakdown, TwoSidesInTurn) {
  const Breakdown breakdown = BreakdownOf(10, 10, {Ran(kComm, 10, 12), Ran(kComp, 12, 16)});
  EXPECT_EQ(breakdown.sets_ms, (Sets{0, 4, 2, 0, 0, 0, 0, 0}));
}

// In the first of eight pieces nothing runs, in the second computation alone, and so on.
TEST(Breakdown, EverySetOfClasses) {
  std::vector<LaneWork> works;
  for (int set = 1; set < 8; ++set) {
    for (const WorkClass one : {kComp, kComm, kMem})
      if ((set & static_cast<int>(Breakdown::Bit(one))) != 0)
        works.push_back(Ran(one, set, set + 1));
  }
  const Breakdown breakdown = BreakdownOf(0, 0.5, works);
  EXPECT_EQ(breakdown.sets_ms, (Sets{1, 1, 1, 1, 1, 1, 1, 1}));
  EXPECT_EQ(breakdown.With_ms(Breakdown::Bit(kComm)), 4);
  EXPECT_EQ(breakdown.With_ms(Breakdown::Bit(kComm) | Breakdown::Bit(kComp)), 2);
  EXPECT_EQ(breakdown.With_ms(0), 8);
}

// Two works of a class at a time count once, until the later one ends.
TEST(Breakdown, SeveralOfAClass) {
  const Breakdown breakdown =
      BreakdownOf(0, 0, {Ran(kComp, 0, 3), Ran(kComp, 1, 2), Ran(kComp, 2, 5)});
  EXPECT_EQ(breakdown.sets_ms, (Sets{0, 5, 0, 0, 0, 0, 0, 0}));
}

TEST(Breakdown, IgnoresWorkBeforeTheBegin) {
  const Breakdown breakdown = BreakdownOf(2, 2, {Ran(kComp, 0, 1), Ran(kComm, 1, 3)});
  EXPECT_EQ(breakdown.sets_ms, (Sets{0, 0, 1, 0, 0, 0, 0, 0}));
}

// A gap's cause is that of the work that ends it, piece by piece.
TEST(Breakdown, AGapIsDividedAmongItsCauses) {
  LaneWork late = Ran(kComp, 10, 11);
  late.held_until_ms = 3;
  late.enqueued_ms = 6;
  const auto causes_of = [&](const LaneWork& work) {
    const Breakdown breakdown = BreakdownOf(0, 1, {work});
    EXPECT_EQ(breakdown.sets_ms[0], 10);
    EXPECT_EQ(std::reduce(breakdown.idle_ms.begin(), breakdown.idle_ms.end()), 10);
    return breakdown.idle_ms;
  };
  using Causes = std::array<double, 5>;  // ranks, gate, host, dependency, other
  EXPECT_EQ(causes_of(late), (Causes{1, 2, 3, 0, 4}));
  late.awaits = IdleCause::kDependency;
  EXPECT_EQ(causes_of(late), (Causes{1, 2, 3, 4, 0}));
  late.enqueued_ms = 2;  // before the gate opened
  EXPECT_EQ(causes_of(late), (Causes{1, 2, 0, 7, 0}));
  late.enqueued_ms = 20;  // its call returned after it had begun
  EXPECT_EQ(causes_of(late), (Causes{1, 2, 7, 0, 0}));
}

// A rank that began late, a cause that takes no time, and a work inside another one.
TEST(Idle, HasThePiecesOfAllGapsInOrder) {
  LaneWork late = Ran(kComp, 10, 12);
  late.enqueued_ms = 6;
  late.awaits = IdleCause::kDependency;
  std::vector<std::tuple<IdleCause, double, double>> pieces;
  for (const Idle& one : IdleOf(2, 3, {late, Ran(kComm, 4, 9), Ran(kMem, 5, 6)}))
    pieces.emplace_back(one.cause, one.begin_ms, one.end_ms);
  EXPECT_EQ(pieces, (decltype(pieces){{IdleCause::kRanks, 2, 3},
                                      {IdleCause::kOther, 3, 4},
                                      {IdleCause::kDependency, 9, 10}}));
}

TEST(Breakdown, EachGapHasItsOwnCause) {
  LaneWork waiting = Ran(kComm, 5, 6);
  waiting.awaits = IdleCause::kDependency;
  const Breakdown breakdown = BreakdownOf(0, 0, {Ran(kComp, 1, 3), waiting});
  EXPECT_EQ(Idle_ms(breakdown, IdleCause::kOther), 1);
  EXPECT_EQ(Idle_ms(breakdown, IdleCause::kDependency), 2);
}

// Whichever of them is listed first.
TEST(Breakdown, OfWorksThatEndAGapTheFirstEnqueuedCounts) {
  LaneWork early = Ran(kComp, 5, 6);
  early.enqueued_ms = 1;
  LaneWork late = Ran(kComm, 5, 6);
  late.enqueued_ms = 4;
  for (const auto& works : {std::vector{early, late}, std::vector{late, early}})
    EXPECT_EQ(Idle_ms(BreakdownOf(0, 0, works), IdleCause::kHost), 1);
}

TEST(Breakdown, SharesAddUp) {
  Breakdown sum = BreakdownOf(0, 0, {Ran(kComp, 1, 2)});
  sum.Add(BreakdownOf(0, 0, {Ran(kComm, 2, 5)}));
  EXPECT_EQ(sum.sets_ms, (Sets{3, 1, 3, 0, 0, 0, 0, 0}));
  EXPECT_EQ(Idle_ms(sum, IdleCause::kOther), 3);
  EXPECT_EQ(Idle_ms(sum, IdleCause::kRanks), 0);
  sum.Add(BreakdownOf(0, 1, {Ran(kComm, 4, 5)}));
  EXPECT_EQ(Idle_ms(sum, IdleCause::kRanks), 1);
  EXPECT_EQ(Idle_ms(sum, IdleCause::kOther), 6);
}

// For patterns: gaps of less than half a millisecond by the host, and copies on their own streams.
TEST(Breakdown, LateLaunchesAndCopiesApartAddUp) {
  LaneWork late = Ran(kComp, 0.25, 1);
  late.enqueued_ms = 0.25;
  LaneWork copy = Ran(kMem, 0, 1);
  copy.stream = 1;
  const Breakdown apart = BreakdownOf(0, 0, {Ran(kComp, 0, 1), copy});
  EXPECT_EQ(apart.copies_apart, 1);
  Breakdown sum = BreakdownOf(0, 0, {late});
  EXPECT_EQ(sum.late_ms, 0.25);
  EXPECT_FALSE(sum.copies_apart);
  sum.Add(BreakdownOf(0, 0, {late}));
  EXPECT_EQ(sum.late_ms, 0.5);
  EXPECT_FALSE(sum.copies_apart);
  sum.Add(apart);
  EXPECT_TRUE(sum.copies_apart);
  sum.Add(BreakdownOf(0, 0, {late}));
  EXPECT_TRUE(sum.copies_apart);
}

// Of a flag the greater one counts.
TEST(Breakdown, EveryTimeIsSummed) {
  using Numbers = std::array<double, sizeof(Breakdown) / sizeof(double)>;
  Numbers numbers{};
  std::iota(numbers.begin(), numbers.end(), 1);
  auto sum = std::bit_cast<Breakdown>(numbers);
  sum.copies_apart = 0;
  auto twice = std::bit_cast<Breakdown>(numbers);
  twice.copies_apart = 1;
  sum.Add(twice);
  EXPECT_EQ(sum.copies_apart, 1);
  sum.copies_apart = 2 * std::bit_cast<Breakdown>(numbers).copies_apart;
  for (double& number : numbers) number *= 2;
  EXPECT_EQ(std::bit_cast<Numbers>(sum), numbers);
}

// For any works, the pieces add up to the time and the causes to the idle time, and a class runs as
// long as the union of its works.
TEST(Breakdown, SharesOfRandomWorkAddUpToTheTime) {
  for (std::uint32_t seed = 0; seed < 500; ++seed) {
    long draws = 0;
    const auto below = [&](std::uint64_t limit) {
      return static_cast<int>(Random(seed, draws++) % limit);
    };
    constexpr int kBegin = 5;
    constexpr int kEnd = 60;
    std::vector<LaneWork> works;
    std::array<std::array<bool, kEnd>, 3> ran{};  // by class, in each millisecond
    int end = kBegin;
    for (int i = below(8); i >= 0; --i) {
      const int at = below(40);
      LaneWork work = Ran(static_cast<WorkClass>(below(3)), at, at + below(20));
      work.enqueued_ms = below(50);
      work.held_until_ms = below(50);
      work.awaits = static_cast<IdleCause>(below(5));
      works.push_back(work);
      end = std::max(end, static_cast<int>(work.end_ms));
      for (int t = std::max(at, kBegin); t < work.end_ms; ++t)
        ran.at(static_cast<std::size_t>(work.work_class)).at(t) = true;
    }
    const Breakdown breakdown = BreakdownOf(kBegin, below(20), works);
    EXPECT_EQ(breakdown.total_ms(), end - kBegin) << seed;
    EXPECT_EQ(std::reduce(breakdown.idle_ms.begin(), breakdown.idle_ms.end()), breakdown.sets_ms[0])
        << seed;
    for (const WorkClass one : {kComp, kComm, kMem}) {
      const auto& of_class = ran.at(static_cast<std::size_t>(one));
      EXPECT_EQ(breakdown.With_ms(Breakdown::Bit(one)), std::ranges::count(of_class, true)) << seed;
    }
  }
}

}  // namespace
}  // namespace overlapbench
