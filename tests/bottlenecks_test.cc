// What the oracles of L2Kernel, SharedKernel, ChainKernel and Attention know without running them.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>
#include <vector>

#include "kernels/attention_oracle.h"
#include "kernels/chain_map.h"
#include "kernels/ring.h"
#include "workload/element.h"

namespace overlapbench {
namespace {

TEST(Ring, CountsTheVisitsOfAReader) {
  constexpr long kSlots = 7;
  for (const long steps : {0L, 1L, 6L, 7L, 8L, 30L}) {
    for (long first = 0; first < kSlots; ++first) {
      std::vector<long> visits(kSlots);
      for (long step = 0; step < steps; ++step) ++visits[(first + step) % kSlots];
      for (long slot = 0; slot < kSlots; ++slot)
        EXPECT_EQ(ring::Visits(kSlots, first, steps, slot), visits[slot])
            << steps << " steps from " << first << ", slot " << slot;
    }
  }
}

TEST(Ring, SumsWrapAroundAsInt32) {
  EXPECT_EQ(ring::AsInt32(7), 7);
  EXPECT_EQ(ring::AsInt32(0xFFFFFFFE), -2);
  const ring::Quad quad{{0xFFFFFFFF, 2, 3, 4}};
  EXPECT_EQ(quad.Sum(), 8U);
}

TEST(ChainMap, VisitsEveryPlaceBeforeItReturns) {
  for (const std::uint32_t places : {2U, 4U, 1024U}) {
    std::set<std::uint32_t> seen;
    std::uint32_t place = 1;
    for (std::uint32_t step = 0; step < places; ++step) {
      seen.insert(place);
      place = kChainMap.At(place) & (places - 1);
    }
    EXPECT_EQ(seen.size(), places);
    EXPECT_EQ(place, 1U);
  }
}

TEST(ChainMap, ManyStepsComposeToOneMap) {
  std::uint32_t place = 12345;
  for (long steps = 0; steps < 100; ++steps) {
    EXPECT_EQ(Repeated(kChainMap, steps).At(12345), place) << steps;
    place = kChainMap.At(place);
  }
}

double Input(std::uint32_t seed, long row, int column) {
  return RandomFraction(seed, row * kAttentionDim + column);
}

double Score(long query, long key) {
  double sum = 0;
  for (int i = 0; i < kAttentionDim; ++i)
    sum += Input(kQuerySeed, query, i) * Input(kKeySeed, key, i);
  return sum / std::sqrt(128.0);
}

TEST(AttentionOracle, OneTokenAttendsToItself) {
  const AttentionRow row = AttentionOracle(1, 3, 0);
  for (int i = 0; i < kAttentionDim; ++i) {
    EXPECT_DOUBLE_EQ(row.values[i], Input(kValueSeed, 3, i));
    EXPECT_DOUBLE_EQ(row.walks[i], std::abs(Input(kValueSeed, 3, i)));
  }
}

TEST(AttentionOracle, WeighsTheTokensOfItsHead) {
  const long first = 2L * 5;  // head 5 of two tokens
  const double weight = 1 / (1 + std::exp(Score(first + 1, first + 1) - Score(first + 1, first)));
  const AttentionRow row = AttentionOracle(2, 5, 1);
  for (int i = 0; i < kAttentionDim; ++i) {
    const double a = weight * Input(kValueSeed, first, i);
    const double b = (1 - weight) * Input(kValueSeed, first + 1, i);
    EXPECT_NEAR(row.values[i], a + b, 1e-12);
    EXPECT_NEAR(row.walks[i], std::hypot(a, b), 1e-12);
  }
}

class AttentionErrorTest : public testing::Test {
 protected:
  // The expected row, but with column 70 multiplied by `factor`.
  double ErrorWith(double factor) {
    std::vector<std::uint16_t> results(kAttentionDim);
    for (int i = 0; i < kAttentionDim; ++i) {
      const double value = expected_.values[i] * (i == 70 ? factor : 1);
      Store(results.data(), i, Element::kBfloat16, static_cast<float>(value));
    }
    return LargestError(expected_, results.data(), &worst_);
  }
  const double kTolerance = AttentionError(Element::kBfloat16, 256).Limit(kAttentionDim);
  AttentionRow expected_ = AttentionOracle(256, 0, 17);
  int worst_ = -1;
};

TEST_F(AttentionErrorTest, RoundingIsWithinTheTolerance) {
  EXPECT_LE(ErrorWith(1), kTolerance);
  EXPECT_GT(ErrorWith(1), 0);
}

TEST_F(AttentionErrorTest, AWrongElementIsFound) {
  EXPECT_GT(ErrorWith(-1), kTolerance);
  EXPECT_EQ(worst_, 70);
  EXPECT_GT(ErrorWith(std::numeric_limits<double>::quiet_NaN()), kTolerance);
  EXPECT_EQ(worst_, 70);
}

TEST_F(AttentionErrorTest, AnErrorOfAllElementsIsFound) {
  std::vector<std::uint16_t> results(kAttentionDim);
  for (int i = 0; i < kAttentionDim; ++i) {
    const double wrong = expected_.values[i] + 0.05 * expected_.walks[i];
    Store(results.data(), i, Element::kBfloat16, static_cast<float>(wrong));
  }
  EXPECT_GT(LargestError(expected_, results.data(), &worst_), kTolerance);
}

}  // namespace
}  // namespace overlapbench
