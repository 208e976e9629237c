// The fused softmax's rows that fit the registers of a warp, or of a part of one.
//
// A block has four warps. Each group of lanes has kRows rows in flight at once, so that short rows
// keep memory as busy as long ones. Neighbouring groups take neighbouring rows.

#include "kernels/cuda/softmax_fused.h"
#include "kernels/cuda/softmax_row.cuh"

namespace overlapbench {
namespace softmax {
namespace {

constexpr int kThreads = 128;

// A lane's share of a row: vectors and an edge.
template <class T, int kVectors, int kLanes>
class VectorShare {
 public:
  __device__ float LoadMax(const T* row, int columns, int lane) {
    const Span<T> span(row, columns);
    vectors_.Load(reinterpret_cast<const uint4*>(row + span.head) + lane, span.vectors - lane,
                  kLanes);
    edge_ = LoadEdge(row, span.Edge(lane));
    return fmaxf(vectors_.Max(), edge_);
  }
  __device__ float Sum(float max) {
    const Exponentials exponentials(max);
    return vectors_.Sum(exponentials) + exponentials(edge_);
  }
  // The span is the input's; the output may be aligned differently.
  __device__ void Store(const T* row, T* to, int columns, int lane,
                        const Normalizer<>& normalizer) {
    const Span<T> span(row, columns);
    vectors_.Store(to + span.head + lane * Span<T>::kVector, span.vectors - lane, kLanes,
                   normalizer);
    StoreEdge(to, span.Edge(lane), edge_, normalizer);
  }

 private:
  Vectors<T, kVectors> vectors_;
  float edge_ = 0;
};

// Rows so short that a lane takes several of them have hardly more exponentials than an exact
// division has instructions. For longer rows the division is free, and its branch keeps the
// compiler from starting on all results at once, which would take more registers.
template <int kRows>
__device__ __forceinline__ Normalizer<> NormalizerOf(const Partial& row) {
  if constexpr (kRows > 1) return Normalizer(row, Reciprocal(row.sum));
  return Normalizer(row);
}

template <class T, int kVectors, int kLanes, int kRows>
__global__ __launch_bounds__(kThreads) void LanesKernel(const T* in, T* out, long rows,
                                                        int columns) {
  constexpr int kGroups = kThreads / kLanes;
  const int lane = threadIdx.x % kLanes;
  const long first = static_cast<long>(blockIdx.x) * kGroups * kRows + threadIdx.x / kLanes;
  VectorShare<T, kVectors, kLanes> shares[kRows];
  Partial partials[kRows];
  // Groups past the end repeat the last row and store nothing, because whole warps must take part
  // in the shuffles.
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    const long row = min(first + r * kGroups, rows - 1);
    partials[r].max = shares[r].LoadMax(in + row * columns, columns, lane);
  }
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    partials[r].max = MaxOverLanes<kLanes>(partials[r].max);
    partials[r].sum = SumOverLanes<kLanes>(shares[r].Sum(partials[r].max));
  }
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    const long row = first + r * kGroups;
    if (row >= rows) return;
    shares[r].Store(in + row * columns, out + row * columns, columns, lane,
                    NormalizerOf<kRows>(partials[r]));
  }
}

template <class T, int kVectors, int kLanes, int kRows>
void LaunchLanes(const FusedLaunch<T>& launch) {
  const long rows_a_block = kThreads / kLanes * kRows;
  const auto blocks = static_cast<unsigned>((launch.rows + rows_a_block - 1) / rows_a_block);
  LanesKernel<T, kVectors, kLanes, kRows>
      <<<blocks, kThreads, 0, launch.stream>>>(launch.in, launch.out, launch.rows, launch.columns);
  CUDA_CHECK(cudaGetLastError());
}

template <class T>
constexpr Kernel<T> kKernels[] = {
    {4, 1, LaunchLanes<T, 1, 4, 2>},   {8, 1, LaunchLanes<T, 1, 8, 2>},
    {16, 1, LaunchLanes<T, 1, 16, 2>}, {32, 1, LaunchLanes<T, 1, 32, 2>},
    {32, 2, LaunchLanes<T, 2, 32, 1>}, {32, 3, LaunchLanes<T, 3, 32, 1>},
};

}  // namespace

template <class T>
void LaunchShortRows(const FusedLaunch<T>& launch, const SoftmaxRegime& regime) {
  LaunchOneOf(kKernels<T>, launch, regime);
}
template void LaunchShortRows(const FusedLaunch<float>&, const SoftmaxRegime&);
template void LaunchShortRows(const FusedLaunch<__half>&, const SoftmaxRegime&);
template void LaunchShortRows(const FusedLaunch<__nv_bfloat16>&, const SoftmaxRegime&);

}  // namespace softmax
}  // namespace overlapbench
