// The fused softmax's short rows that do not all start at 16-byte boundaries.
//
// Such rows can only be read one element at a time. But consecutive rows are contiguous, and
// together they are nearly all whole 16-byte vectors. So a block copies a stage of consecutive rows
// into shared memory, where a row may start anywhere at no cost, replaces each row by its softmax
// there, and copies the stage back.
//
// Some lanes of a warp take a row together, as 32-bit words. Their registers should hold little
// more than the row, because padding costs as many exponentials as elements do. So the table has a
// line for about every fifth length.

#include <cuda_pipeline.h>

#include <algorithm>

#include "kernels/cuda/softmax_fused.h"
#include "kernels/cuda/softmax_row.cuh"

namespace overlapbench {
namespace softmax {
namespace {

constexpr int kThreads = 128;
constexpr int kStageBytes = 16 * 1024;

// Replaces a row of shared memory by its softmax. A lane has at most kWords words and one edge.
template <class T, int kWords, int kLanes>
__device__ __forceinline__ void ReplaceRow(T* row, int columns, int lane) {
  const Span<T, std::uint32_t> span(row, columns);
  auto* const lanes_words = reinterpret_cast<std::uint32_t*>(row + span.head) + lane;
  const int count = span.vectors - lane;
  std::uint32_t words[kWords];
#pragma unroll
  for (int i = 0; i < kWords; ++i) {
    words[i] = i * kLanes < count ? lanes_words[i * kLanes] : Format<T>::kMinusInfinities;
  }
  const int edge = span.Edge(lane);
  const float edge_value = LoadEdge(row, edge);

  std::uint32_t maxima = words[0];
#pragma unroll
  for (int i = 1; i < kWords; ++i) maxima = Format<T>::Max(maxima, words[i]);
  const float max = MaxOverLanes<kLanes>(fmaxf(Format<T>::MaxOf(maxima), edge_value));
  const Exponentials exponentials(max);
  float sums[2] = {exponentials(edge_value), 0};
#pragma unroll
  for (int i = 0; i < kWords; ++i) AddExponentials<T>(words[i], exponentials, sums);
  const float sum = SumOverLanes<kLanes>(sums[0] + sums[1]);

  // These rows have hardly more exponentials than an exact division has instructions.
  const Normalizer normalizer({max, sum}, Reciprocal(sum));
#pragma unroll
  for (int i = 0; i < kWords; ++i) {
    if (i * kLanes < count) lanes_words[i * kLanes] = Normalize<T>(words[i], normalizer);
  }
  StoreEdge(row, edge, edge_value, normalizer);
}

// The stage has the input's alignment to 16 bytes, with its first whole vector at stage[1].
template <class T, int kWords, int kLanes>
__global__ __launch_bounds__(kThreads) void StagedKernel(const T* in, T* out, long rows,
                                                         int columns, int rows_a_block) {
  extern __shared__ uint4 stage[];
  const long first = static_cast<long>(blockIdx.x) * rows_a_block;
  const int count = static_cast<int>(min(static_cast<long>(rows_a_block), rows - first));
  const T* const from = in + first * columns;
  T* const to = out + first * columns;
  const Span<T> span(from, count * columns);
  T* const staged = reinterpret_cast<T*>(stage + 1) - span.head;
  const int thread = static_cast<int>(threadIdx.x);
  const int edge = span.Edge(thread);

  const auto* const vectors = reinterpret_cast<const uint4*>(from + span.head);
  for (int i = thread; i < span.vectors; i += kThreads) {
    __pipeline_memcpy_async(stage + 1 + i, vectors + i, sizeof(uint4));
  }
  if (edge >= 0) staged[edge] = from[edge];
  __pipeline_commit();
  __pipeline_wait_prior(0);
  __syncthreads();

  // Whole warps must take part in the shuffles, so lanes past the last row get no columns of it.
  constexpr int kRowsAWarp = 32 / kLanes;
  for (int row = thread / kLanes; row / kRowsAWarp * kRowsAWarp < count; row += kThreads / kLanes) {
    ReplaceRow<T, kWords, kLanes>(staged + min(row, count - 1) * columns, row < count ? columns : 0,
                                  thread % kLanes);
  }
  __syncthreads();

  if (reinterpret_cast<std::uintptr_t>(to + span.head) % sizeof(uint4) == 0) {
    auto* const results = reinterpret_cast<uint4*>(to + span.head);
    for (int i = thread; i < span.vectors; i += kThreads) results[i] = stage[1 + i];
    if (edge >= 0) to[edge] = staged[edge];
  } else {
    for (int i = thread; i < count * columns; i += kThreads) to[i] = staged[i];
  }
}

template <class T, int kWords, int kLanes>
void LaunchStaged(const FusedLaunch<T>& launch) {
  // A multiple of 16 rows ends at a 16-byte boundary wherever the first row starts at one.
  constexpr int kGranularity = 16;
  const int row_bytes = launch.columns * static_cast<int>(sizeof(T));
  const int rows_a_block = std::max(kStageBytes / row_bytes / kGranularity, 1) * kGranularity;
  const auto blocks = static_cast<unsigned>((launch.rows + rows_a_block - 1) / rows_a_block);
  const std::size_t stage_bytes = rows_a_block * row_bytes + 2 * sizeof(uint4);  // and its edges
  StagedKernel<T, kWords, kLanes><<<blocks, kThreads, stage_bytes, launch.stream>>>(
      launch.in, launch.out, launch.rows, launch.columns, rows_a_block);
  CUDA_CHECK(cudaGetLastError());
}

template <class T>
constexpr Kernel<T> kKernels[] = {
    {4, 2, LaunchStaged<T, 2, 4>},   {4, 3, LaunchStaged<T, 3, 4>},
    {4, 4, LaunchStaged<T, 4, 4>},   {4, 5, LaunchStaged<T, 5, 4>},
    {4, 6, LaunchStaged<T, 6, 4>},   {4, 8, LaunchStaged<T, 8, 4>},
    {8, 5, LaunchStaged<T, 5, 8>},   {8, 6, LaunchStaged<T, 6, 8>},
    {8, 8, LaunchStaged<T, 8, 8>},   {16, 5, LaunchStaged<T, 5, 16>},
    {16, 6, LaunchStaged<T, 6, 16>}, {16, 8, LaunchStaged<T, 8, 16>},
    {32, 5, LaunchStaged<T, 5, 32>}, {32, 6, LaunchStaged<T, 6, 32>},
    {32, 8, LaunchStaged<T, 8, 32>},
};

}  // namespace

template <class T>
void LaunchStagedRows(const FusedLaunch<T>& launch, const SoftmaxRegime& regime) {
  LaunchOneOf(kKernels<T>, launch, regime);
}
template void LaunchStagedRows(const FusedLaunch<float>&, const SoftmaxRegime&);
template void LaunchStagedRows(const FusedLaunch<__half>&, const SoftmaxRegime&);
template void LaunchStagedRows(const FusedLaunch<__nv_bfloat16>&, const SoftmaxRegime&);

}  // namespace softmax
}  // namespace overlapbench
