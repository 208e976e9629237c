// One forward pass of attention on tensor cores, tile by tile with an online softmax: the algorithm
// of T. Dao, "FlashAttention-2: Faster Attention with Better Parallelism and Work Partitioning"
// (2023), with mma.sync.
//
// A block of eight warps takes 128 queries of one head, 16 a warp, and goes over the keys 64 at a
// time. A warp has its queries and its part of the result in registers, and keeps a maximum and a
// sum for each query; when the maximum grows, sum and result are scaled down. Probabilities go from
// the first product to the second in registers, rounded to bfloat16. While one tile of keys and
// values is used, the next is copied to shared memory (cp.async).
#pragma once

#include "kernels/cuda/attention_tiles.cuh"

namespace overlapbench::attention {

constexpr int kSharedBytes = 2 * kStageBytes;
static_assert(kQueries * kRowBytes <= kSharedBytes, "the queries pass through it first");

struct Problem {
  const __nv_bfloat16* queries;
  const __nv_bfloat16* keys;
  const __nv_bfloat16* values;
  __nv_bfloat16* results;
  long heads;      // of a sequence
  long sequence;   // a multiple of kQueries
  float exponent;  // log2 e / √kDim
  AttentionLayout inputs;
  AttentionLayout output;
};

// One block for each kQueries rows of the result.
__global__ __launch_bounds__(kThreads, 1) void AttentionKernel(Problem problem) {
  extern __shared__ __align__(128) unsigned char memory[];
  const auto shared = static_cast<std::uint32_t>(__cvta_generic_to_shared(memory));
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const auto [head, first_token, first_query] = HeadRows(problem.heads, problem.sequence);
  const long stride = problem.inputs.token_stride;
  const __nv_bfloat16* keys = problem.keys + problem.inputs.At(first_token, head);
  const __nv_bfloat16* values = problem.values + problem.inputs.At(first_token, head);

  CopyRows<kQueries>(shared, problem.queries + problem.inputs.At(first_query, head), stride);
  AwaitCopies();
  __syncthreads();
  Fragment queries[kDim / 16];
#pragma unroll
  for (int k = 0; k < kDim / 16; ++k) queries[k] = LoadRows(shared, warp * 16, k, lane);
  __syncthreads();

  const int tiles = static_cast<int>(problem.sequence / kKeys);
  const auto copy_tile = [&](int tile) {
    const std::uint32_t stage = shared + tile % 2 * kStageBytes;
    const long offset = static_cast<long>(tile) * kKeys * stride;
    CopyRows<kKeys>(stage, keys + offset, stride);
    CopyRows<kKeys>(stage + kTileBytes, values + offset, stride);
  };
  State state;
  copy_tile(0);
  for (int tile = 0; tile < tiles; ++tile) {
    AwaitCopies();
    __syncthreads();  // the tile is there, and no warp still reads the one before it
    if (tile + 1 < tiles) copy_tile(tile + 1);
    const std::uint32_t stage = shared + tile % 2 * kStageBytes;
    Scores scores = {};
#pragma unroll
    for (int k = 0; k < kDim / 16; ++k) MultiplyByKeys(scores, queries[k], k, stage, lane);
    Exponentiate(scores, state, problem.exponent);
    MultiplyByValues(state.results, scores, stage + kTileBytes, lane);
  }
  const long query = first_query + warp * 16 + lane / 4;
  const float factors[2] = {1.0F / softmax::SumOverLanes<4>(state.sum[0]),
                            1.0F / softmax::SumOverLanes<4>(state.sum[1])};
  StoreResults(state.results, factors,
               problem.results + problem.output.At(query, head) + lane % 4 * 2,
               problem.output.token_stride);
}

}  // namespace overlapbench::attention
