// How numbers are shown with their interval and in a unit.
#include "report/value.h"

#include <gtest/gtest.h>

namespace overlapbench {
namespace {

std::string Shown(double value, double low, double high, int decimals = 2, double factor = 1) {
  Row row;
  row.counters["slowdown"] = {value, Interval{low, high}};
  return ShownNumber(row, "slowdown", decimals, factor);
}

TEST(ShownNumber, HasOneReachIfBothAreAlike) {
  EXPECT_EQ(Shown(2, 1.9, 2.1), "2.00 ±0.10");
  EXPECT_EQ(Shown(2, 1.9, 2.15), "2.00 ±0.15");
  EXPECT_EQ(Shown(2, 1, 3.5), "2.00 ±1.5");
  EXPECT_EQ(Shown(2, 1.9, 2.16), "2.00 -0.10 +0.16");
  EXPECT_EQ(Shown(2, 1.84, 2.1), "2.00 -0.16 +0.10");
}

TEST(ShownNumber, HasTwoDigitsOfTheLargerReachAtMost) {
  EXPECT_EQ(Shown(200, 187, 213, 3), "200.000 ±13");
  EXPECT_EQ(Shown(2, 0.7, 3.3, 3), "2.000 ±1.3");
  EXPECT_EQ(Shown(2, 1.9958, 2.0042, 3), "2.000 ±0.004");
  EXPECT_EQ(Shown(20, 19, 21, 0), "20 ±1");
}

TEST(ShownNumber, HasNoReachWithoutAWidth) {
  EXPECT_EQ(Shown(2, 2, 2), "2.00");
  EXPECT_EQ(Shown(2, 2.5, 2), "2.00") << "an interval that does not hold its number";
  Row row;
  row.counters["slowdown"] = 2;
  EXPECT_EQ(ShownNumber(row, "slowdown", 2, 1), "2.00");
}

TEST(ShownNumber, IsMultipliedWithItsInterval) {
  EXPECT_EQ(Shown(2, 1.9, 2.1, 1, 100), "200.0 ±10");
}

TEST(ShownTime, IsInItsUnit) {
  Row row;
  row.time_ms = 1234;
  EXPECT_EQ(ShownTime(row, {"s"}), "1.234 s");
  EXPECT_EQ(ShownTime(row, {"ms"}), "1234 ms");
  row.time_ms = 0.5;
  EXPECT_EQ(ShownTime(row, {"us"}), "500.0 us");
  row.time_ms = 0.001234;
  EXPECT_EQ(ShownTime(row, {"ns"}), "1234 ns");
  row.time_ms = {0.5, Interval{0.4, 0.6}};
  EXPECT_EQ(ShownTime(row, {"us"}), "500.0 ±100 us");
}

}  // namespace
}  // namespace overlapbench
