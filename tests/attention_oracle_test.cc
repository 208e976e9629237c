// The oracle of attention against the definition, and what its check allows.
#include "kernels/attention_oracle.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "workload/data.h"

namespace overlapbench {
namespace {

double At(std::uint32_t seed, long row, int column) {
  return RandomFraction(seed, row * 128 + column);
}

// exp(score) of a query and a key, not less a maximum.
double Weight(long query, long key) {
  double score = 0;
  for (int i = 0; i < 128; ++i) score += At(6500, query, i) * At(6501, key, i);
  return std::exp(score / std::sqrt(128.0));
}

// Query 2 of the second head: its keys are rows 5 to 9.
TEST(AttentionOracle, IsTheSoftmaxOfTheScoresTimesTheValues) {
  constexpr long kSequence = 5;
  const AttentionRow row = AttentionOracle(kSequence, 1, 2);
  ASSERT_EQ(row.values.size(), 128U);
  ASSERT_EQ(row.walks.size(), 128U);
  double sum = 0;
  for (long key = 0; key < kSequence; ++key) sum += Weight(5 + 2, 5 + key);
  for (const int column : {0, 1, 63, 127}) {
    double value = 0;
    double squares = 0;
    for (long key = 0; key < kSequence; ++key) {
      const double part = Weight(5 + 2, 5 + key) / sum * At(6502, 5 + key, column);
      value += part;
      squares += part * part;
    }
    EXPECT_NEAR(row.values[column], value, 1e-14) << column;
    EXPECT_NEAR(row.walks[column], std::sqrt(squares), 1e-14) << column;
  }
}

TEST(AttentionOracle, OneKeyIsItsValue) {
  const AttentionRow row = AttentionOracle(1, 3, 0);
  for (const int column : {0, 77, 127}) {
    EXPECT_DOUBLE_EQ(row.values[column], At(6502, 3, column));
    EXPECT_DOUBLE_EQ(row.walks[column], std::abs(At(6502, 3, column)));
  }
}

// Of scores whose exponentials no double holds, too.
TEST(AttentionOracle, ProbabilitiesDependOnDifferencesAlone) {
  const std::vector<double> expected = Probabilities({0, 3, -5});
  for (const double shift : {2e4, -2e4}) {
    const std::vector<double> shifted = Probabilities({shift, shift + 3, shift - 5});
    for (std::size_t key = 0; key < expected.size(); ++key)
      EXPECT_NEAR(shifted[key], expected[key], 1e-12) << shift;
  }
}

class AttentionErrorTest : public testing::Test {
 protected:
  double Error() { return LargestError(expected_, results_.data(), &worst_); }
  void Set(int column, double value) {
    Store(results_.data(), column, Element::kBfloat16, static_cast<float>(value));
  }

  // Values of 0.5 with walks of 0.25 each, which bfloat16 holds.
  AttentionRow expected_{std::vector<double>(128, 0.5), std::vector<double>(128, 0.25)};
  std::vector<std::uint16_t> results_ = std::vector<std::uint16_t>(128, 0x3F00);
  int worst_ = -1;
};

TEST_F(AttentionErrorTest, IsRelativeToTheValueAndItsWalk) {
  EXPECT_EQ(Error(), 0);
  EXPECT_EQ(worst_, 0);
  Set(0, 0.25);
  Set(127, -0.75);
  EXPECT_DOUBLE_EQ(Error(), 1.25 / (0.5 + 0.25));
  EXPECT_EQ(worst_, 127);
  Set(127, 0.5);
  expected_.values[5] = -0.5;
  Set(5, -0.25);
  expected_.walks[5] = 0;
  EXPECT_DOUBLE_EQ(Error(), 0.5) << "the size of a negative value counts, not its sign";
  Set(5, -0.5);
  Set(7, std::numeric_limits<double>::quiet_NaN());
  EXPECT_EQ(Error(), std::numeric_limits<double>::infinity());
  EXPECT_EQ(worst_, 7);
}

// The result is stored once, and each of its terms was stored before. Float32 hardly counts.
TEST_F(AttentionErrorTest, AddsUpTheRoundingsToTheElementType) {
  const auto [own, walk] = AttentionError(Element::kBfloat16, 4096);
  EXPECT_NEAR(own, 1.0 / 256, 0.1 / 256);
  EXPECT_NEAR(walk, 1.0 / 256 / std::sqrt(3.0), 0.01 / 256);
  EXPECT_LT(AttentionError(Element::kFloat32, 4096).Limit(256), 1e-4);
}

}  // namespace
}  // namespace overlapbench
