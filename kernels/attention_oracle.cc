#include "kernels/attention_oracle.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "workload/data.h"

namespace overlapbench {
namespace {

// With u = 2^-8, the largest relative error of rounding to bfloat16:
//   probability  Each exponential is rounded to bfloat16 for the product with the values, and not
//                for their sum, by which the result is divided. So value j is weighted with
//                p[j]·(1 + d), |d| ≤ u. Independent errors of mean 0 exceed kWalks·u·walk with a
//                probability below 2·exp(−kWalks²/2), 10^-13 (Hoeffding's inequality).
//   result       Rounding it is off by u·|value|.
//   float32      Products of inputs are multiples of 2^-14, and a sum of 128 of them is below 2^7:
//                scores are exact. Exponents and exponentials are off by less than 2^-20, and a sum
//                over a tile at a time by 2^-24 for each tile. Together this is a thousandth of u
//                where `walk` is 1/256 of Σ p[j]·|v[j]|, as with the 65,536 keys of the longest
//                sequence. A tenth of u is allowed for it.
constexpr double kWalks = 8;
constexpr double kUnit = 0x1p-8;
constexpr double kInFloat32 = 1.1;

double Input(std::uint32_t seed, long row, int column) {
  return RandomFraction(seed, row * kAttentionDim + column);
}

// Softmax of the row's scores.
std::vector<double> Probabilities(long sequence, long head, long query) {
  std::vector<double> p(sequence);
  const double scale = 1 / std::sqrt(static_cast<double>(kAttentionDim));
  for (long key = 0; key < sequence; ++key) {
    double score = 0;
    for (int i = 0; i < kAttentionDim; ++i) {
      score +=
          Input(kQuerySeed, head * sequence + query, i) * Input(kKeySeed, head * sequence + key, i);
    }
    p[key] = score * scale;
  }
  const double max = *std::ranges::max_element(p);
  double sum = 0;
  for (double& value : p) sum += value = std::exp(value - max);
  for (double& value : p) value /= sum;
  return p;
}

}  // namespace

AttentionRow AttentionOracle(long sequence, long head, long query) {
  AttentionRow row{std::vector<double>(kAttentionDim), std::vector<double>(kAttentionDim)};
  const std::vector<double> p = Probabilities(sequence, head, query);
  for (long key = 0; key < sequence; ++key) {
    for (int i = 0; i < kAttentionDim; ++i) {
      const double part = p[key] * Input(kValueSeed, head * sequence + key, i);
      row.values[i] += part;
      row.walks[i] += part * part;
    }
  }
  for (double& walk : row.walks) walk = std::sqrt(walk);
  return row;
}

double AttentionError(const AttentionRow& expected, const std::uint16_t* results, int* worst) {
  double largest = 0;
  *worst = 0;
  for (int i = 0; i < kAttentionDim; ++i) {
    const double scale = std::abs(expected.values[i]) + kWalks * expected.walks[i];
    double error = std::abs(Load(results, i, Element::kBfloat16) - expected.values[i]) / scale;
    if (std::isnan(error)) error = std::numeric_limits<double>::infinity();
    if (error <= largest) continue;
    largest = error;
    *worst = i;
  }
  return largest;
}

double AttentionTolerance() { return kInFloat32 * kUnit; }

}  // namespace overlapbench
