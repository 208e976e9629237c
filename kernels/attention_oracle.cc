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

std::vector<double> ScoresOf(long sequence, long head, long query) {
  std::vector<double> scores(sequence);
  for (long key = 0; key < sequence; ++key) {
    for (int i = 0; i < kAttentionDim; ++i) {
      scores[key] +=
          Input(kQuerySeed, head * sequence + query, i) * Input(kKeySeed, head * sequence + key, i);
    }
  }
  return scores;
}

}  // namespace

std::vector<double> Probabilities(std::vector<double> scores) {
  const double most = *std::ranges::max_element(scores);
  double sum = 0;
  for (double& score : scores) {
    score = std::exp((score - most) / std::sqrt(static_cast<double>(kAttentionDim)));
    sum += score;
  }
  for (double& score : scores) score /= sum;
  return scores;
}

ExpectedValue WeightedSum(const std::vector<double>& probabilities,
                          const std::function<double(long)>& value) {
  double sum = 0;
  double squares = 0;
  for (long key = 0; key < std::ssize(probabilities); ++key) {
    const double term = probabilities[key] * value(key);
    sum += term;
    squares += term * term;
  }
  return {sum, std::sqrt(squares)};
}

AttentionRow AttentionOracle(long sequence, long head, long query) {
  AttentionRow row{std::vector<double>(kAttentionDim), std::vector<double>(kAttentionDim)};
  const std::vector<double> p = Probabilities(ScoresOf(sequence, head, query));
  for (int i = 0; i < kAttentionDim; ++i) {
    const ExpectedValue sum =
        WeightedSum(p, [&](long key) { return Input(kValueSeed, head * sequence + key, i); });
    row.values[i] = sum.value;
    row.walks[i] = sum.walk;
  }
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
