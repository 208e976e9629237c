// Summaries of samples, against values worked out by hand.
#include "fixtures/statistics.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
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

}  // namespace
}  // namespace overlapbench
