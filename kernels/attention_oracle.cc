#include "kernels/attention_oracle.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "workload/data.h"

namespace overlapbench {
namespace {

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

double LargestError(const AttentionRow& expected, const std::uint16_t* results, int* worst) {
  double largest = 0;
  *worst = 0;
  for (int i = 0; i < kAttentionDim; ++i) {
    const double scale = std::abs(expected.values[i]) + expected.walks[i];
    double error = std::abs(Load(results, i, Element::kBfloat16) - expected.values[i]) / scale;
    if (std::isnan(error)) error = std::numeric_limits<double>::infinity();
    if (error <= largest) continue;
    largest = error;
    *worst = i;
  }
  return largest;
}

RoundingError AttentionError(Element element, long sequence) {
  constexpr double kMostScore = 8;
  const Adder adder = element == Element::kFloat32 ? Adder::kFloat32 : Adder::kTensorCores;
  const RoundingError of_score = ErrorOfSum(kAttentionDim, adder);
  const RoundingError in_float32{0, kMostScore * (of_score.own + of_score.walk)};
  return in_float32.Stored(element)
      .Stored(Element::kFloat32)
      .AsTerm()
      .And(ErrorOfSum(sequence, adder))
      .Stored(element);
}

}  // namespace overlapbench
