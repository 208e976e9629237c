// CacheAttention: the attention of one decode step, softmax(q·Kᵀ/√d)·V for one new token of each
// sequence, over keys and values that a cache in memory keeps of its `context` earlier tokens.
//
// It is bound by memory: every key and value is read once, for four operations each. Every head has
// its own keys and values, as in kernels/block_half.h. A cache row holds the keys of all of this
// rank's heads at one position, then their values. What the step adds to the cache is not written.
//
// Few sequences would occupy few SMs, so each warp takes a piece of the positions of one head, and
// a second kernel adds the pieces (T. Dao et al., Flash-Decoding for long-context inference, 2023).
#pragma once

#include <cstdint>
#include <memory>

#include "workload/tensor.h"

namespace overlapbench {

struct CacheAttention {
  SharedTensor queries;  // [tokens, 3 · inner]: queries, then keys and values, which are not read
  SharedTensor cache;    // [tokens · context, 2 · inner]
  SharedTensor results;  // [tokens, inner]
  std::uint32_t seed = 0;

  [[nodiscard]] long context() const { return cache->shape().rows / results->shape().rows; }
};

// What it needs beside its tensors.
std::size_t CacheAttentionBytes(const Device& device, const TensorShape& results, long context);
// A part is some of the tokens.
std::unique_ptr<Workload> MakeCacheAttention(const Machine& machine,
                                             const CacheAttention& attention);

}  // namespace overlapbench
