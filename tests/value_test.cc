// How figures are shown: as exactly as they are known, in a unit, and not at all if their interval
// says nothing.
#include "report/value.h"

#include <gtest/gtest.h>

namespace overlapbench {
namespace {

Counter CounterOf(const std::string& unit, Range range = Range::kNotNegative) {
  return {"it", unit, Better::kNeither, range, "it", "a figure"};
}

std::string Text(const ShownFigure& figure) {
  return figure.number + (figure.reach.empty() ? "" : " ") + figure.reach;
}

std::string ShownOf(const Counter& counter, const Figure& figure, const TimeUnit& unit = {}) {
  Row row;
  row.time_ms = 10;
  row.counters["it"] = figure;
  return Text(Shown(row, counter, unit));
}

TEST(Shown, EndsAtTheFirstDigitOfTheLargerReach) {
  const Counter ratio = CounterOf("");
  EXPECT_EQ(ShownOf(ratio, {1.4567, Interval{1.43, 1.47}}), "1.46 ±0.03");
  EXPECT_EQ(ShownOf(ratio, {1.4567, Interval{1.43, 1.67}}), "1.5 ±0.2");
  EXPECT_EQ(ShownOf(ratio, {12.34, Interval{10, 13}}), "12 ±2");
  EXPECT_EQ(ShownOf(ratio, {2, Interval{1.9995, 2}}), "2.00 ±0.00");
  EXPECT_EQ(ShownOf(ratio, {-0.04, Interval{-0.2, 0.1}}), "0.0 ±0.2");
  EXPECT_EQ(ShownOf(CounterOf("GB/s"), {0.0412, Interval{0.04, 0.043}}), "0.041 ±0.002");
  const Counter time = CounterOf("ms");
  EXPECT_EQ(ShownOf(time, {13.0391, Interval{12.49, 13.1}}), "13.0 ±0.5");
  EXPECT_EQ(ShownOf(time, {0.0123456, Interval{0.0121, 0.0124}}), "0.0123 ±0.0002");
}

TEST(Shown, HasFourDigitsWithoutAnInterval) {
  EXPECT_EQ(ShownOf(CounterOf(""), 1.414), "1.41");
  EXPECT_EQ(ShownOf(CounterOf("%"), 83.44), "83.4");
  EXPECT_EQ(ShownOf(CounterOf("count"), 100), "100");
  EXPECT_EQ(ShownOf(CounterOf("bool"), 1), "1");
  EXPECT_EQ(ShownOf(CounterOf("GB/s"), 312.44), "312.4");
  EXPECT_EQ(ShownOf(CounterOf("ms"), 0.0123456), "0.01235");
  EXPECT_EQ(ShownOf(CounterOf("ms"), 0.56), "0.5600");
  for (const auto& [value, shown] : {std::pair(9999.4, "9999"),
                                     {9999.7, "10000"},
                                     {-12345.6, "-12346"},
                                     {999999999, "999999999"},
                                     {1e9, "1e+09"},
                                     {0.000012, "1.2e-05"}})
    EXPECT_EQ(ShownOf(CounterOf("us"), value), shown);
  EXPECT_EQ(ShownOf(CounterOf("ms"), {2, Interval{2, 2}}), "2.000");
  EXPECT_EQ(ShownOf(CounterOf("ms"), {2, Interval{2.5, 2}}), "2.000") << "no interval of it";
  EXPECT_EQ(Text(Shown(Row(), CounterOf(""), {})), "");
}

TEST(Shown, IsInTheUnitOfTimes) {
  const Counter time = CounterOf("ms");
  EXPECT_EQ(ShownOf(time, 1234, {"s"}), "1.234");
  EXPECT_EQ(ShownOf(time, {0.5, Interval{0.4, 0.6}}, {"us"}), "500 ±100");
  EXPECT_EQ(ShownOf(time, 0.001234, {"ns"}), "1234");
  EXPECT_EQ(ShownUnit(time, {"us"}), "us");
  EXPECT_EQ(ShownUnit(CounterOf("GB/s"), {"us"}), "GB/s");
  EXPECT_EQ(ShownUnit(CounterOf("count"), {"us"}), "");
  Row row;
  row.time_ms = {4, Interval{3.9, 4.1}};
  EXPECT_EQ(Text(Shown(row, *CounterTable().Find("time"), {})), "4.0 ±0.1");
}

// Each limit just kept, and just passed. A row takes 10 ms.
TEST(SaysNothing, IfTheIntervalReachesTooFar) {
  const auto says_nothing = [](const Counter& counter, double value, double length) {
    return ShownOf(counter, {value, Interval{value - length / 2, value + length / 2}}) == "?";
  };
  const struct {
    Counter counter;
    double value;
    double longest;
  } limits[] = {{CounterOf("", Range::kSigned), -12.48, 1},
                {CounterOf("", Range::kAtMostOne), 0.5, 1},
                {CounterOf("", Range::kPositive), 0.7, 1},
                {CounterOf("", Range::kPositive), 12, 12},
                {CounterOf("%", Range::kSigned), 400, 100},
                {CounterOf("%"), 3, 100},
                {CounterOf("%"), 300, 300},
                {CounterOf("ms", Range::kSigned), 0.1, 10},
                {CounterOf("us", Range::kSigned), 0.1, 10000},
                {CounterOf("ms", Range::kPositive), 3, 3},
                {CounterOf("GB/s"), 300, 300}};
  for (const auto& [counter, value, longest] : limits) {
    EXPECT_FALSE(says_nothing(counter, value, longest * 0.99)) << counter.unit << value;
    EXPECT_TRUE(says_nothing(counter, value, longest * 1.01)) << counter.unit << value;
  }
  EXPECT_EQ(ShownOf(CounterOf("", Range::kSigned), {-12.48, Interval{-18.4, -6.6}}), "?");
  EXPECT_EQ(ShownOf(CounterOf(""), {2.3, Interval{2.2, 3.5}}), "?") << "one side decides";
  EXPECT_EQ(ShownOf(CounterOf(""), {12, Interval{6, 18}}), "12 ±6") << "as long as itself";
  EXPECT_EQ(ShownOf(CounterOf("", Range::kSigned), -12.48), "-12.48") << "without an interval";
}

}  // namespace
}  // namespace overlapbench
