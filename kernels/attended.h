// Attended: the queries, keys and values of a half transformer block with attention. All three lie
// in the rows of one matrix, `widened` (kernels/block_half.h).
#pragma once

#include "kernels/attention.h"
#include "kernels/block_half.h"

namespace overlapbench {

struct Attended {
  SharedTensor widened;
  long sequence = 0;  // tokens of one
  long inner = 0;

  explicit Attended(const BlockHalf& half)
      : widened(half.widened),
        sequence(half.widened->shape().rows / half.sequences),
        inner(half.activated->shape().columns) {}

  // The first token of a row's sequence.
  [[nodiscard]] long FirstOf(long row) const { return row / sequence * sequence; }
  // Queries, keys or values of these rows of a matrix like `widened`.
  [[nodiscard]] std::byte* Third(const SharedTensor& rows, long first, int third) const {
    return rows->Row(first) + third * inner * static_cast<long>(SizeOf(rows->shape().element));
  }
  // Of whole sequences.
  [[nodiscard]] AttentionProblem ProblemOf(long first, long rows, void* results = nullptr) const {
    return {.queries = Third(widened, first, 0),
            .keys = Third(widened, first, 1),
            .values = Third(widened, first, 2),
            .results = results,
            .element = widened->shape().element,
            .sequences = rows / sequence,
            .heads = inner / kAttentionDim,
            .sequence = sequence,
            .inputs = {3 * inner, kAttentionDim},
            .output = {inner, kAttentionDim}};
  }
};

// Of the kAttentionDim elements that begin there.
inline double Dot(const std::vector<float>& left, long left_first, const std::vector<float>& right,
                  long right_first) {
  double sum = 0;
  for (long i = 0; i < kAttentionDim; ++i)
    sum += static_cast<double>(left[left_first + i]) * right[right_first + i];
  return sum;
}

}  // namespace overlapbench
