// The oracle of scaled dot-product attention: single rows of the result in double precision, and
// how far a result may be from them.
//
// Queries, keys, values and results are matrices of heads × sequence rows and kAttentionDim columns
// in bfloat16. The inputs are RandomFraction(seed, row × kAttentionDim + column), which bfloat16
// holds exactly, so that any row of the result can be computed without reading them.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "workload/rounding_error.h"
#include "workload/sample_check.h"

namespace overlapbench {

constexpr int kAttentionDim = 128;
constexpr std::uint32_t kQuerySeed = 6500;
constexpr std::uint32_t kKeySeed = 6501;
constexpr std::uint32_t kValueSeed = 6502;

// What a query gives its keys: the softmax of their scores, each divided by √kAttentionDim.
std::vector<double> Probabilities(std::vector<double> scores);
// Σ p[j]·v[j], for any way to find v.
ExpectedValue WeightedSum(const std::vector<double>& probabilities,
                          const std::function<double(long)>& value);

struct AttentionRow {
  std::vector<double> values;  // Σ p[j]·v[j]
  // √Σ (p[j]·v[j])²: independent relative errors add up to about this times their size.
  std::vector<double> walks;
};

// The expected row of query number `query` of head number `head`.
AttentionRow AttentionOracle(long sequence, long head, long query);

// The largest error of `results`, a row in bfloat16: |error| / (|value| + walk). `worst` is its
// column.
double LargestError(const AttentionRow& expected, const std::uint16_t* results, int* worst);

// Of a result, or of a gradient, in relation to its walk: a sum of `sequence` terms. A term is a
// probability times a value, and is rounded to the element type, but not for the sum by which the
// result is divided. A probability is the exponential of a score, a sum of kAttentionDim products
// that the walk of scores below 8 makes uncertain; so is what a gradient multiplies it by.
RoundingError AttentionError(Element element, long sequence);

}  // namespace overlapbench
