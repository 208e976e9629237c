// Attention's kernel, for workloads that bring their own matrices: softmax(Q·Kᵀ/√d)·V for every
// head of every sequence, without a mask, d = kAttentionDim.
//
// A matrix has a row of d elements for each head of each token. A layout says where they lie: each
// head separately, or all heads of a token in one row, as products leave them.
#pragma once

#include "device/device.h"
#include "kernels/attention_oracle.h"
#include "workload/element.h"

namespace overlapbench {

// In elements. Rows are aligned to 16 bytes on a GPU.
struct AttentionLayout {
  long token_stride = 0;
  long head_stride = 0;

  // The first element of a row; tokens of all sequences are numbered in turn.
  [[nodiscard]] OVERLAPBENCH_BODY long At(long token, long head) const {
    return token * token_stride + head * head_stride;
  }
};

struct AttentionProblem {
  const void* queries = nullptr;
  const void* keys = nullptr;
  const void* values = nullptr;
  void* results = nullptr;
  Element element = Element::kBfloat16;  // on GPUs no other
  long sequences = 1;
  long heads = 1;     // of a sequence
  long sequence = 0;  // tokens of one; on GPUs a multiple of kAttentionTokens
  AttentionLayout inputs = {};
  AttentionLayout output = {};

  [[nodiscard]] long rows() const { return sequences * heads * sequence; }
};

// A row of one head: of the token `token`, in the sequence that begins with `first`.
struct HeadRow {
  long first = 0;
  long token = 0;
  long head = 0;
};
inline HeadRow HeadRowOf(const AttentionProblem& attention, long row) {
  const long first = row / attention.sequence / attention.heads * attention.sequence;
  return {first, first + row % attention.sequence, row / attention.sequence % attention.heads};
}

// What a dot product of a query and a key is multiplied by.
inline constexpr float kAttentionScale = 0.08838834764831845F;  // 1 / √kAttentionDim
static_assert(kAttentionDim == 128);

constexpr long kAttentionTokens = 128;  // for each block on a GPU

// Call once before the first launch: it loads the kernel. Does nothing on the host backend.
void PrepareAttention(const Device& device);
void EnqueueAttention(Stream& stream, const AttentionProblem& problem);

}  // namespace overlapbench
