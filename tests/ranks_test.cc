// What ranks agree on, on one rank, on two and on three; and that a rank that does not come is
// noticed.
#include "ranks/ranks.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstring>
#include <thread>

#include "ranks/clock.h"
#include "test_ranks.h"

namespace overlapbench {
namespace {

using std::chrono_literals::operator""ms;

std::string Number(int value) { return std::to_string(value); }

// What `action` throws as an exception of this type; "" when it does not.
template <class Exception, class Action>
std::string Thrown(const Action& action) {
  try {
    action();
  } catch (const Exception& error) {
    return error.what();
  }
  return "";
}

class RanksTest : public testing::Test {
 protected:
  Ranks& ranks() { return TestRanks(); }
  int rank() { return ranks().rank(); }
  int size() { return ranks().size(); }
  bool is_last() { return rank() == size() - 1; }
};

TEST_F(RanksTest, AreCounted) {
  EXPECT_GE(rank(), 0);
  EXPECT_LT(rank(), size());
  EXPECT_EQ(ranks().is_root(), rank() == 0);
  EXPECT_EQ(ranks().local_rank(), rank());  // the tests run on one machine
  EXPECT_EQ(ranks().local_size(), size());
  EXPECT_EQ(ranks().Prefix(), size() == 1 ? "" : "rank " + Number(rank()) + ": ");
}

TEST_F(RanksTest, BarrierWaitsForTheLast) {
  const auto start = std::chrono::steady_clock::now();
  if (is_last()) std::this_thread::sleep_for(50ms);
  ranks().Barrier("the test");
  EXPECT_GE(std::chrono::steady_clock::now() - start, 45ms);
}

TEST_F(RanksTest, MaxIsTakenOfEachValue) {
  std::array values = {static_cast<double>(rank()), static_cast<double>(-rank()), 7.25, -1e-300};
  ranks().Max(values, "the test");
  EXPECT_EQ(values, (std::array{size() - 1.0, 0.0, 7.25, -1e-300}));
}

// Google Benchmark decides by these numbers: one bit apart, and two ranks would go different ways.
TEST_F(RanksTest, MaxHasTheSameBitsEverywhere) {
  for (int i = 0; i < 100; ++i) {
    double value = std::sin(1000 * rank() + i) / 3;
    ranks().Max({&value, 1}, "the test");
    double highest = value;
    double lowest = -value;
    ranks().Max({&highest, 1}, "the test");
    ranks().Max({&lowest, 1}, "the test");
    EXPECT_EQ(highest, -lowest);
    EXPECT_EQ(highest, value);
  }
}

TEST_F(RanksTest, GatherHasEveryTextInOrder) {
  const auto texts = ranks().Gather("from " + Number(rank()), "the test");
  ASSERT_EQ(static_cast<int>(texts.size()), size());
  for (int i = 0; i < size(); ++i) EXPECT_EQ(texts[i], "from " + Number(i));
}

TEST_F(RanksTest, GatherCutsLongTextsAndKeepsEmptyOnes) {
  const auto texts = ranks().Gather(rank() == 0 ? std::string(10'000, 'x') : "", "the test");
  EXPECT_EQ(texts[0], std::string(Ranks::kTextBytes - 1, 'x'));
  for (int i = 1; i < size(); ++i) EXPECT_EQ(texts[i], "");
}

TEST_F(RanksTest, BroadcastBringsRootsBytes) {
  std::array<std::byte, 64> bytes{};
  bytes.fill(std::byte(rank() + 1));
  ranks().Broadcast(bytes, "the test");
  for (const auto byte : bytes) EXPECT_EQ(byte, std::byte{1});
}

TEST_F(RanksTest, GatherIfAnyHasNoTextsOrAll) {
  EXPECT_TRUE(ranks().GatherIfAny("", "the test").empty());
  const auto texts = ranks().GatherIfAny(is_last() ? "mine" : "", "the test");
  ASSERT_EQ(static_cast<int>(texts.size()), size());
  for (int i = 0; i < size(); ++i) EXPECT_EQ(texts[i], i == size() - 1 ? "mine" : "");
}

TEST_F(RanksTest, NoErrorIsAgreedOnInSilence) {
  EXPECT_NO_THROW(ranks().AgreeOnError("", "the test"));
}

TEST_F(RanksTest, OneRanksErrorIsThrownOnAllWithItsRank) {
  const std::string mine = is_last() ? "out of memory" : "";
  EXPECT_EQ(Thrown<Error>([&] { ranks().AgreeOnError(mine, "the test"); }),
            size() == 1 ? "out of memory" : "rank " + Number(size() - 1) + ": out of memory");
}

TEST_F(RanksTest, AnErrorOfAllIsThrownWithoutARank) {
  EXPECT_EQ(Thrown<Error>([&] { ranks().AgreeOnError("out of memory", "the test"); }),
            "out of memory");
}

TEST_F(RanksTest, OfDifferentErrorsTheFirstRanksIsThrownOnAll) {
  EXPECT_EQ(Thrown<Error>([&] { ranks().AgreeOnError("error " + Number(rank()), "the test"); }),
            size() == 1 ? "error 0" : "rank 0: error 0");
}

TEST_F(RanksTest, TheSameBenchmarkIsEnteredTogether) {
  EXPECT_NO_THROW(ranks().AgreeOnEntry("Comm/AllReduce", 10));
}

TEST_F(RanksTest, ATripwireNamesBothBenchmarks) {
  if (size() == 1) GTEST_SKIP() << "needs two ranks to differ";
  const std::string mine = is_last() ? "Comm/AllGather" : "Comm/AllReduce";
  const std::string text = Thrown<FatalError>([&] { ranks().AgreeOnEntry(mine, 1); });
  EXPECT_NE(text.find("rank 0 is at Comm/AllReduce (1 iterations)"), std::string::npos) << text;
  EXPECT_NE(text.find("rank " + Number(size() - 1) + " at Comm/AllGather (1 iterations)"),
            std::string::npos)
      << text;
}

TEST_F(RanksTest, ATripwireNamesBothIterationCounts) {
  if (size() == 1) GTEST_SKIP() << "needs two ranks to differ";
  const std::string text =
      Thrown<FatalError>([&] { ranks().AgreeOnEntry("Comm/AllReduce", is_last() ? 20 : 10); });
  EXPECT_NE(text.find("(10 iterations)"), std::string::npos) << text;
  EXPECT_NE(text.find("(20 iterations)"), std::string::npos) << text;
}

TEST_F(RanksTest, WhatAllRanksKnowIsMarkedSo) {
  if (size() == 1) GTEST_SKIP() << "needs two ranks to differ";
  try {
    ranks().AgreeOnEntry("benchmark " + Number(rank()), 1);
    FAIL() << "the ranks differ";
  } catch (const FatalError& error) {
    EXPECT_TRUE(error.known_to_all());
  }
}

// The last rank comes, but long after the others have given up.
TEST_F(RanksTest, ARankThatDoesNotComeEndsTheWaiting) {
  if (size() == 1) GTEST_SKIP() << "needs two ranks";
  if (is_last()) {
    std::this_thread::sleep_for(1000ms);
    ranks().Barrier("waiting for Godot");
  } else {
    ranks().set_timeout(100ms);
    const auto start = std::chrono::steady_clock::now();
    const std::string text = Thrown<FatalError>([&] { ranks().Barrier("waiting for Godot"); });
    EXPECT_LT(std::chrono::steady_clock::now() - start, 900ms);
    EXPECT_EQ(text.find("rank " + Number(rank()) + ": waiting for Godot: "), 0U) << text;
    EXPECT_NE(text.find("100 ms"), std::string::npos) << text;
    ranks().set_timeout(kRanksPatience);
  }
  ranks().Barrier("meeting again");
}

TEST_F(RanksTest, TheClockIsCommon) {
  ranks().Barrier("the test");
  const double now_ms = ranks().CommonClockMs();
  std::array spread = {now_ms, -now_ms};
  ranks().Max(spread, "the test");
  EXPECT_LT(spread[0] + spread[1], 1000) << "ms between ranks of one machine";
}

// As of machines whose clocks are an hour apart.
TEST_F(RanksTest, ClocksOfMachinesAreCompared) {
  constexpr double kHour_ms = 3.6e6;
  const auto skewed_ms = [&] { return NowMs() + kHour_ms * rank(); };
  const double offset_ms = ClockOffsetMs(ranks(), MPI_COMM_WORLD, skewed_ms);
  EXPECT_NEAR(offset_ms, -kHour_ms * rank(), 1000) << "ms, half of the quickest exchange";
}

TEST(MpiCheck, NamesTheCallAndTheReason) {
  EXPECT_NO_THROW(ThrowIfMpiFailed(MPI_SUCCESS, "MPI_Thing"));
  const std::string text = Thrown<Error>([] { ThrowIfMpiFailed(MPI_ERR_COUNT, "MPI_Thing"); });
  EXPECT_EQ(text.find("MPI_Thing failed: "), 0U) << text;
  EXPECT_GT(text.size(), std::strlen("MPI_Thing failed: "));
}

}  // namespace
}  // namespace overlapbench
