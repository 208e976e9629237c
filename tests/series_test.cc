// Per-group series: their arithmetic and what is reported from them.
#include "fixtures/series.h"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "device/error.h"

namespace overlapbench {
namespace {

using Values = std::vector<double>;

TEST(Series, ArithmeticIsPerGroup) {
  const Series a({4, 9});
  const Series b({2, 3});
  EXPECT_EQ((a + b).values(), (Values{6, 12}));
  EXPECT_EQ((a - b).values(), (Values{2, 6}));
  EXPECT_EQ((a / b).values(), (Values{2, 3}));
  EXPECT_EQ((10 * a).values(), (Values{40, 90}));
  EXPECT_EQ((a / 2).values(), (Values{2, 4.5}));
  EXPECT_EQ((36 / a).values(), (Values{9, 4}));
}

TEST(Series, SeriesOfDifferentGroupsCannotBePaired) {
  EXPECT_THROW(static_cast<void>(Series({1, 2}) / Series({1})), Error);
}

// Both sides drift by half, and their ratio does not.
TEST(Series, ARatioIsPaired) {
  const Series ratio = Series({10, 12, 15, 11}) / Series({5, 6, 7.5, 5.5});
  EXPECT_DOUBLE_EQ(ratio.median(), 2);
  EXPECT_DOUBLE_EQ(ratio.margin(), 0);
}

TEST(Series, LongerComparesMedians) {
  const Series steady({5, 5, 5});
  const Series noisy({1, 4, 9});
  EXPECT_EQ(LongerOf(noisy, steady).values(), steady.values());
  EXPECT_EQ(ShorterOf(noisy, steady).values(), noisy.values());
  const Series even({4, 5, 6});
  EXPECT_EQ(LongerOf(steady, even).values(), steady.values()) << "the first of equal ones";
  EXPECT_EQ(ShorterOf(steady, even).values(), even.values()) << "and the other one";
}

// By more than half a percent, and with intervals that do not meet.
TEST(Series, IsShorterOnlyIfThatIsCertain) {
  const Values near = {9.9, 10, 10.1, 9.9, 10, 10.1, 10, 10};
  const auto scaled = [&near](double factor) { return factor * Series(near); };
  EXPECT_TRUE(IsShorter(scaled(0.9), scaled(1)));
  EXPECT_FALSE(IsShorter(scaled(1), scaled(0.9)));
  const Series exact({10, 10, 10, 10, 10, 10, 10, 10});
  EXPECT_FALSE(IsShorter(0.996 * exact, exact)) << "0.4 %";
  EXPECT_TRUE(IsShorter(0.994 * exact, exact)) << "0.6 %";
  EXPECT_FALSE(IsShorter(scaled(0.99), scaled(1))) << "intervals meet";
  EXPECT_FALSE(IsShorter(Series({9}), Series({10}))) << "without intervals nothing is certain";
}

TEST(Series, TheMarginIsHalfTheIntervalOverTheMedian) {
  const Series series({9, 10, 11, 9, 10, 11, 10, 10});
  const Interval interval = series.interval().value_or(Interval{});
  EXPECT_DOUBLE_EQ(series.margin(), (interval.high - interval.low) / 20);
  EXPECT_GT(series.margin(), 0);
  EXPECT_EQ(Series({1}).margin(), std::numeric_limits<double>::infinity());
}

TEST(Series, IsReportedWithTheEndsOfItsInterval) {
  Counters counters;
  const Series series({1, 2, 3, 4, 5, 6, 7});
  Report(counters, "slowdown", series);
  EXPECT_DOUBLE_EQ(counters.at("slowdown"), 4);
  const Interval interval = series.interval().value_or(Interval{});
  const Interval reported = counters.at("slowdown").interval.value_or(Interval{});
  EXPECT_DOUBLE_EQ(reported.low, interval.low);
  EXPECT_DOUBLE_EQ(reported.high, interval.high);
  EXPECT_LT(interval.low, 4);
  EXPECT_GT(interval.high, 4);
  Report(counters, "gain", Series({1}));
  EXPECT_EQ(counters.at("gain"), 1);
  EXPECT_FALSE(counters.at("gain").interval.has_value());
}

// JSON has no NaN and no infinity. Where some groups alone are not finite, the median is without an
// interval.
TEST(Series, AShareOfNothingIsNotReported) {
  Counters counters;
  const Series some({1, 2, 3, 4, 5, 6});
  const Series nothing = 0.0 * some;
  const Series none = 0.0 * Series({1, 2, 3, 4, 5, 6});
  Report(counters, "by_sm", some / nothing);
  Report(counters, "by_l2", nothing / none);
  Report(counters, "by_hbm", Series({0, 0, 1, 1, 1, 1}) / Series({0, 1, 1, 1, 1, 1}));
  EXPECT_TRUE(counters.empty());
  Report(counters, "by_lead", Series({1, 1, 1, 1, 1, 1}) / Series({0, 1, 1, 1, 1, 1}));
  ASSERT_EQ(counters.size(), 1U);
  EXPECT_EQ(counters.at("by_lead"), 1);
  EXPECT_FALSE(counters.at("by_lead").interval.has_value());
  EXPECT_EQ(nothing.margin(), std::numeric_limits<double>::infinity());
}

}  // namespace
}  // namespace overlapbench
