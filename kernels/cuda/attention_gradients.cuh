// The backward pass of attention on tensor cores, with the tiles and products of the forward pass
// (kernels/cuda/attention_tiles.cuh).
//
// Queries and keys are two sides that are handled alike. Each has two matrices: `scored`, whose
// products with the other side's are the scores, and `weighted`, whose products are the gradients
// of the probabilities.
//
//                 scored    weighted
//   of queries    q         dO
//   of keys       k         v
//
//   scores        own.scored · other.scoredᵀ
//   of p          own.weighted · other.weightedᵀ
//   ds            p · (of p − D), with p = exp(score − L); L and D belong to the query
//   gradients     of own.scored: ds · other.scored; of the values too: p · other.weighted
//
// A block of GradientsKernel has 128 rows of one head of its own side, 16 a warp, and goes over the
// other side 64 rows at a time. Its own rows stay in shared memory, and the next tile of the other
// side is copied there while one is used. ds and p go from the first products to the last ones in
// registers, rounded to bfloat16. Every element has one thread that adds to it, in one order.
//
// LogSumsKernel is the first half of the forward pass: a maximum and a sum for each query.
#pragma once

#include "kernels/cuda/attention_tiles.cuh"

namespace overlapbench::attention {

constexpr int kOwnBytes = kQueries * kRowBytes;
constexpr int kLogSumsSharedBytes = kOwnBytes + 2 * kTileBytes;  // queries; two stages of keys

struct LogSumsProblem {
  const __nv_bfloat16* queries;
  const __nv_bfloat16* keys;
  float* log_sums;  // [token][head]
  long heads;       // of a sequence
  long sequence;    // a multiple of kQueries
  float scale;
  AttentionLayout inputs;
};

struct Operands {
  const __nv_bfloat16* scored;
  const __nv_bfloat16* weighted;
  AttentionLayout scored_layout;
  AttentionLayout weighted_layout;
};

struct GradientsProblem {
  Operands own;
  Operands other;
  const float* log_sums;  // [token][head]
  const float* products;
  __nv_bfloat16* of_scored;
  __nv_bfloat16* of_weighted;  // of keys alone
  long heads;
  long sequence;
  float scale;
  AttentionLayout gradients;
};

// Computes the scores of 16 rows of `left`, from row `first` on, with a tile's rows.
__device__ __forceinline__ void MultiplyRows(Scores& scores, std::uint32_t left, int first,
                                             std::uint32_t tile, int lane) {
#pragma unroll
  for (int k = 0; k < kDim / 16; ++k)
    MultiplyByKeys(scores, LoadRows(left, first, k, lane), k, tile, lane);
}

// One block for each kQueries rows of queries.
__global__ __launch_bounds__(kThreads, 1) void LogSumsKernel(LogSumsProblem problem) {
  extern __shared__ __align__(128) unsigned char memory[];
  const auto shared = static_cast<std::uint32_t>(__cvta_generic_to_shared(memory));
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const auto [head, first_token, first_query] = HeadRows(problem.heads, problem.sequence);
  const long stride = problem.inputs.token_stride;
  const __nv_bfloat16* keys = problem.keys + problem.inputs.At(first_token, head);
  const auto copy_tile = [&](int tile) {
    CopyRows<kKeys>(shared + kOwnBytes + tile % 2 * kTileBytes,
                    keys + static_cast<long>(tile) * kKeys * stride, stride);
  };

  CopyRows<kQueries>(shared, problem.queries + problem.inputs.At(first_query, head), stride);
  copy_tile(0);
  State state;
  const int tiles = static_cast<int>(problem.sequence / kKeys);
  for (int tile = 0; tile < tiles; ++tile) {
    AwaitCopies();
    __syncthreads();  // the tile is there, and no warp still reads the one before it
    if (tile + 1 < tiles) copy_tile(tile + 1);
    Scores scores = {};
    MultiplyRows(scores, shared, warp * 16, shared + kOwnBytes + tile % 2 * kTileBytes, lane);
    Exponentiate(scores, state, softmax::kLog2E * problem.scale);
  }
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const float sum = softmax::SumOverLanes<4>(state.sum[r]);
    const long query = first_query + warp * 16 + lane / 4 + r * 8;
    if (lane % 4 == 0)
      problem.log_sums[query * problem.heads + head] = state.max[r] * problem.scale + logf(sum);
  }
}

// L and D of a query.
struct QueryState {
  float log_sum;  // to base 2
  float product;
};

constexpr int kOthersBytes = 2 * kStageBytes;  // two stages of both matrices
constexpr int kGradientsSharedBytes =
    2 * kOwnBytes + kOthersBytes + kQueries * static_cast<int>(sizeof(QueryState));
static_assert(2 * kKeys == kQueries, "two tiles' queries have the room of the block's own");

// Loads the states of `kRows` tokens from `first` on, by the first `kRows` threads of the block.
template <int kRows>
__device__ __forceinline__ void LoadQueryStates(const GradientsProblem& problem, long head,
                                                long first, QueryState* states) {
  const int row = static_cast<int>(threadIdx.x);
  if (row >= kRows) return;
  const long at = (first + row) * problem.heads + head;
  states[row] = {problem.log_sums[at] * softmax::kLog2E, problem.products[at]};
}

// Turns scores into probabilities, and the gradients of these into those of the scores. `queries`
// are the warp's 16 rows or the tile's columns. Of a thread's four elements in every eight columns,
// element i has row g + 8·(i / 2) and column 2t + i mod 2.
template <bool kOfQueries>
__device__ __forceinline__ void Differentiate(Scores& scores, Scores& gradients,
                                              const QueryState* queries, float exponent, int lane) {
#pragma unroll
  for (int n = 0; n < kKeys / 8; ++n) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int row = lane / 4 + i / 2 * 8;
      const int column = n * 8 + lane % 4 * 2 + i % 2;
      const QueryState query = queries[kOfQueries ? row : column];
      scores[n][i] = softmax::Exponential2(fmaf(scores[n][i], exponent, -query.log_sum));
      gradients[n][i] = scores[n][i] * (gradients[n][i] - query.product);
    }
  }
}

// One block for each kQueries rows of queries, or of keys.
template <bool kOfQueries>
__global__ __launch_bounds__(kThreads, 1) void GradientsKernel(GradientsProblem problem) {
  extern __shared__ __align__(128) unsigned char memory[];
  const auto own = static_cast<std::uint32_t>(__cvta_generic_to_shared(memory));
  const std::uint32_t others = own + 2 * kOwnBytes;
  auto* states = reinterpret_cast<QueryState*>(memory + 2 * kOwnBytes + kOthersBytes);
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const auto [head, first_token, first_row] = HeadRows(problem.heads, problem.sequence);

  const auto copy = [&]<int kRows>(std::uint32_t to, int apart, const Operands& from, long token) {
    CopyRows<kRows>(to, from.scored + from.scored_layout.At(token, head),
                    from.scored_layout.token_stride);
    CopyRows<kRows>(to + apart, from.weighted + from.weighted_layout.At(token, head),
                    from.weighted_layout.token_stride);
  };
  const auto copy_tile = [&](int tile) {
    const long token = first_token + static_cast<long>(tile) * kKeys;
    copy.template operator()<kKeys>(others + tile % 2 * kStageBytes, kTileBytes, problem.other,
                                    token);
    if (!kOfQueries) LoadQueryStates<kKeys>(problem, head, token, states + tile % 2 * kKeys);
  };
  copy.template operator()<kQueries>(own, kOwnBytes, problem.own, first_row);
  if (kOfQueries) LoadQueryStates<kQueries>(problem, head, first_row, states);
  copy_tile(0);

  Results of_scored = {};
  Results of_weighted = {};
  const int tiles = static_cast<int>(problem.sequence / kKeys);
  for (int tile = 0; tile < tiles; ++tile) {
    AwaitCopies();
    __syncthreads();  // the tile is there, and no warp still reads the one before it
    if (tile + 1 < tiles) copy_tile(tile + 1);
    const std::uint32_t stage = others + tile % 2 * kStageBytes;
    Scores scores = {};
    Scores gradients = {};
    MultiplyRows(scores, own, warp * 16, stage, lane);
    MultiplyRows(gradients, own + kOwnBytes, warp * 16, stage + kTileBytes, lane);
    Differentiate<kOfQueries>(scores, gradients,
                              states + (kOfQueries ? warp * 16 : tile % 2 * kKeys),
                              softmax::kLog2E * problem.scale, lane);
    MultiplyByValues(of_scored, gradients, stage, lane);
    if (!kOfQueries) MultiplyByValues(of_weighted, scores, stage + kTileBytes, lane);
  }
  const long row = first_row + warp * 16 + lane / 4;
  const long at = problem.gradients.At(row, head) + lane % 4 * 2;
  StoreResults(of_scored, {problem.scale, problem.scale}, problem.of_scored + at,
               problem.gradients.token_stride);
  if (!kOfQueries)
    StoreResults(of_weighted, {1, 1}, problem.of_weighted + at, problem.gradients.token_stride);
}

}  // namespace overlapbench::attention
