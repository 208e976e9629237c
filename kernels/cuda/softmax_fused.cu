// The fused softmax: chooses the regime, and holds rows that fit a block's registers.
//
// There a block takes one row. All its loads are in flight before the first is used. Each thread
// subtracts the maximum of its own elements, so that the whole row's maximum and sum cost one
// barrier together. The row stays as it was loaded and its exponentials are computed twice, which
// costs less than the registers that would keep them: the more rows an SM holds, the better their
// loads, arithmetic and stores overlap. Loads and stores are plain ones: hints that a line will not
// be used again cost 4 %.

#include "device/cuda/cuda_check.h"
#include "kernels/cuda/softmax_fused.h"
#include "kernels/cuda/softmax_row.cuh"

namespace overlapbench {
namespace softmax {
namespace {

template <class T, int kVectors, int kMostThreads, class Exponentials>
__global__ __launch_bounds__(kMostThreads) void RegistersKernel(const T* in, T* out, int columns) {
  __shared__ Partial shared[32];
  const T* row = in + static_cast<long>(blockIdx.x) * columns;
  T* to = out + static_cast<long>(blockIdx.x) * columns;
  const Span<T> span(row, columns);
  const int thread = static_cast<int>(threadIdx.x);
  const int count = span.vectors - thread;
  const int stride = static_cast<int>(blockDim.x);

  Vectors<T, kVectors> vectors;
  vectors.Load(reinterpret_cast<const uint4*>(row + span.head) + thread, count, stride);
  const int edge = span.Edge(thread);
  const float edge_value = LoadEdge(row, edge);

  const float max = fmaxf(vectors.Max(), edge_value);
  const float reference = Reference(max);
  const Normalizer<Exponentials> normalizer(MergeOverBlock(
      {max, vectors.Sum(Exponentials(reference)) + Exponential(edge_value - reference)}, shared));
  vectors.Store(to + span.head + thread * Span<T>::kVector, count, stride, normalizer);
  StoreEdge(to, edge, edge_value, normalizer);
}

template <class T, int kVectors, int kMostThreads, class Exponentials = Exponentials>
void LaunchVectors(const FusedLaunch<T>& launch) {
  constexpr long kElementsAWarp = 32L * kVectors * Span<T>::kVector;
  const auto threads = 32 * static_cast<unsigned>((launch.columns - 1) / kElementsAWarp + 1);
  RegistersKernel<T, kVectors, kMostThreads, Exponentials>
      <<<static_cast<unsigned>(launch.rows), threads, 0, launch.stream>>>(launch.in, launch.out,
                                                                          launch.columns);
  CUDA_CHECK(cudaGetLastError());
}

// The compiler may give a thread as many registers as fit the most threads that the table's lines
// need.
template <class T>
constexpr Kernel<T> kKernels[] = {
    {0, 2, LaunchVectors<T, 2, 1024, typename Format<T>::FastExponentials>},
    {0, 3, LaunchVectors<T, 3, 1024, typename Format<T>::FastExponentials>},
    {0, 4, LaunchVectors<T, 4, 1024>},
    {0, 6, LaunchVectors<T, 6, 768>},
    {0, 8, LaunchVectors<T, 8, 1024, typename Format<T>::FastExponentials>},
};

template <class T>
bool EveryRowIsAligned(const FusedLaunch<T>& launch) {
  const auto start = reinterpret_cast<std::uintptr_t>(launch.in);
  const auto to = reinterpret_cast<std::uintptr_t>(launch.out);
  return (start | to | launch.columns * sizeof(T)) % 16 == 0;
}

template <class T>
void LaunchFused(const SoftmaxProblem& problem, const FusedLaunch<T>& launch) {
  const SoftmaxRegime regime = SoftmaxRegimeOf(launch.columns, problem.element,
                                               {EveryRowIsAligned(launch), CanStreamParts()});
  switch (regime.kind) {
    case SoftmaxRegimeKind::kStaged:
      return LaunchStagedRows(launch, regime);
    case SoftmaxRegimeKind::kLanes:
      return LaunchShortRows(launch, regime);
    case SoftmaxRegimeKind::kRegisters:
      return LaunchRegisters(launch, regime);
    case SoftmaxRegimeKind::kParts:
      return LaunchParts(launch, regime);
    case SoftmaxRegimeKind::kTwoPass:
      return LaunchTwoPassSoftmax(launch.stream, problem);
  }
}

}  // namespace

template <class T>
void LaunchRegisters(const FusedLaunch<T>& launch, const SoftmaxRegime& regime) {
  LaunchOneOf(kKernels<T>, launch, regime);
}
template void LaunchRegisters(const FusedLaunch<float>&, const SoftmaxRegime&);
template void LaunchRegisters(const FusedLaunch<__half>&, const SoftmaxRegime&);
template void LaunchRegisters(const FusedLaunch<__nv_bfloat16>&, const SoftmaxRegime&);

}  // namespace softmax

void LaunchFusedSoftmax(cudaStream_t stream, const SoftmaxProblem& problem) {
  softmax::VisitElementType(problem.element, [&](auto type) {
    using T = decltype(type);
    softmax::LaunchFused<T>(
        problem, {static_cast<const T*>(problem.input), static_cast<T*>(problem.output),
                  problem.rows, static_cast<int>(problem.columns), stream, problem.workspace});
  });
}

}  // namespace overlapbench
