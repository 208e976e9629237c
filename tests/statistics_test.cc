// Summaries of samples, against values worked out by hand. How often intervals hold the median is
// in median_interval_test.cc.
#include "fixtures/statistics.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <numeric>
#include <vector>

#include "device/error.h"

namespace overlapbench {
namespace {

TEST(Quantile, InterpolatesBetweenTwoSamples) {
  const std::array samples = {3.0, 1.0};
  EXPECT_DOUBLE_EQ(Quantile(samples, 0), 1.0);
  EXPECT_DOUBLE_EQ(Quantile(samples, 0.25), 1.5);
  EXPECT_DOUBLE_EQ(Quantile(samples, 0.5), 2.0);
  EXPECT_DOUBLE_EQ(Quantile(samples, 1), 3.0);
}

TEST(Quantile, OneSampleIsItsOwnQuantile) {
  for (const double share : {0.0, 0.05, 0.5, 0.95, 1.0}) {
    EXPECT_DOUBLE_EQ(Quantile(std::array{7.0}, share), 7.0);
  }
}

// Position 0.95 · 4 = 3.8 lies between the fourth and the fifth sample; so does NumPy's.
TEST(Quantile, IsHyndmanAndFansType7) {
  const std::array samples = {10.0, 1.0, 3.0, 2.0, 4.0};
  EXPECT_DOUBLE_EQ(Quantile(samples, 0.05), 1.2);
  EXPECT_DOUBLE_EQ(Quantile(samples, 0.95), 8.8);
}

TEST(Quantile, IsNoNumberIfASampleIsNone) {
  EXPECT_TRUE(std::isnan(Quantile(std::array{1.0, std::nan(""), 2.0}, 0)));
}

TEST(Quantile, NeedsASample) { EXPECT_THROW(Quantile(std::vector<double>{}, 0.5), Error); }

TEST(Median, IsTheMiddleWhateverTheOrder) {
  EXPECT_DOUBLE_EQ(Median(std::array{9.0, 1.0, 5.0}), 5.0);
  EXPECT_DOUBLE_EQ(Median(std::array{9.0, 1.0, 5.0, 7.0}), 6.0);
}

TEST(Median, IgnoresOneOutlier) { EXPECT_DOUBLE_EQ(Median(std::array{1.0, 1.0, 1e9}), 1.0); }

// Mean 2, squared deviations 1 + 1 over n − 1 = 1.
TEST(Summary, TwoSamples) {
  const Summary summary = Summarize(std::array{1.0, 3.0});
  EXPECT_DOUBLE_EQ(summary.median, 2.0);
  EXPECT_DOUBLE_EQ(summary.p05, 1.1);
  EXPECT_DOUBLE_EQ(summary.p95, 2.9);
  EXPECT_DOUBLE_EQ(summary.cv, std::sqrt(2.0) / 2.0);
  EXPECT_EQ(summary.samples, 2);
}

// Mean 3, squared deviations 4 + 1 + 9 over n − 1 = 2.
TEST(Summary, ThreeSamples) {
  EXPECT_DOUBLE_EQ(Summarize(std::array{1.0, 2.0, 6.0}).cv, std::sqrt(7.0) / 3);
}

TEST(Summary, HasNoVariationWithoutDifference) {
  EXPECT_DOUBLE_EQ(Summarize(std::array{4.0}).cv, 0.0);
  EXPECT_DOUBLE_EQ(Summarize(std::array{4.0, 4.0, 4.0}).cv, 0.0);
}

// As of the host's cores that nobody else uses.
TEST(Summary, ZerosDoNotVary) {
  EXPECT_EQ(Summarize(std::array{0.0, 0.0}).cv, 0);
  EXPECT_EQ(Summarize(std::array{-1.0, 1.0}).cv, 0);
}

TEST(Summary, VariationIsRelative) {
  EXPECT_DOUBLE_EQ(Summarize(std::array{1.0, 3.0}).cv, Summarize(std::array{1e6, 3e6}).cv);
}

// The ends by the formulas of the header, computed by another program.
TEST(MedianInterval, EndsWhereTheFormulasSay) {
  struct Case {
    std::vector<double> samples;
    Interval interval;
  };
  const auto scattered = [](int count, int least) {
    std::vector<double> samples;
    for (int i = 0; i < count; ++i) samples.push_back(least + 37 * i % 101);
    return samples;
  };
  std::vector<double> rising(40);
  std::iota(rising.begin(), rising.end(), 1);
  const std::vector<Case> cases = {{{10, 12}, {3.505160, 34.235243}},
                                   {{-2, 4}, {-36.5, 38.5}},
                                   {{3, 3, 3}, {3, 3}},
                                   {{0, 9, 5}, {-7.15, 17.15}},
                                   {{0.5, 9, 5}, {0.101007, 247.507228}},
                                   {{-2, 1, 3, 2}, {-5.105286, 8.105286}},
                                   {{4, 7, 5, 9}, {3.220306, 10.868533}},
                                   {{1, 4, 2, 9, 6}, {0.697128, 11.114725}},
                                   {{-5, 4, 2, 9, 6}, {-7.342269, 10.301260}},
                                   {{3, 1, 9, 5, 2, 8, 6}, {1.662476, 8.255258}},
                                   {{0, 7, 1, 8, 2, 9, 3, 11}, {0.935644, 9.128713}},
                                   {{5, 5, 1, 1, 9, 9, 2, 2, 7, 7, -1, 4}, {1, 7.501612}},
                                   {rising, {0.335990, 50.926809}},
                                   {scattered(100, 1), {40.760965, 60.235308}},
                                   {scattered(101, 1), {41.149581, 60.847816}},
                                   {scattered(100, -3), {36.763201, 56.236799}},
                                   {scattered(101, -3), {37.151122, 56.848878}}};
  for (const auto& [samples, interval] : cases) {
    const Interval found = MedianInterval(samples).value_or(Interval{});
    EXPECT_NEAR(found.low, interval.low, 1e-6) << samples.size() << " from " << samples[0];
    EXPECT_NEAR(found.high, interval.high, 1e-6) << samples.size() << " from " << samples[0];
  }
}

}  // namespace
}  // namespace overlapbench
