// The fused softmax: chooses the regime, and handles rows that fit a block's registers.
//
// Such a row takes one block. All its loads are in flight before the first is used. Each thread
// subtracts the maximum of its own elements, so that the row's maximum and sum cost one barrier
// together. The more rows an SM holds, the better their loads, arithmetic and stores overlap. So
// most rows keep their exponentials, as long as an SM has the registers for several rows. Longer
// rows keep their elements and compute exponentials twice, which takes half the registers for
// 2-byte types. Which is faster at a length was measured (kernels/softmax_regimes.cc). Loads and
// stores are plain; hints that a line will not be used again cost 4 %.

#include "kernels/cuda/softmax_fused.h"
#include "kernels/cuda/softmax_row.cuh"

namespace overlapbench {
namespace softmax {
namespace {

// `Held` is Vectors, of elements, or KeptVectors, of exponentials.
template <class T, class Held, class Exponentials, int kMostThreads, int kBlocks>
__global__ __launch_bounds__(kMostThreads, kBlocks) void RegistersKernel(const T* in, T* out,
                                                                         int columns) {
  __shared__ Partial shared[32];
  const T* row = in + static_cast<long>(blockIdx.x) * columns;
  T* to = out + static_cast<long>(blockIdx.x) * columns;
  const Span<T> span(row, columns);
  const int thread = static_cast<int>(threadIdx.x);
  const int count = span.vectors - thread;
  const int stride = static_cast<int>(blockDim.x);

  Held vectors;
  vectors.Load(reinterpret_cast<const uint4*>(row + span.head) + thread, count, stride);
  const int edge = span.Edge(thread);
  const float edge_value = LoadEdge(row, edge);

  const float max = fmaxf(vectors.Max(), edge_value);
  const float reference = Reference(max);
  const Normalizer<Exponentials> normalizer(MergeOverBlock(
      {max, vectors.Sum(Exponentials(reference)) + Exponential(edge_value - reference)}, shared));
  T* const first = to + span.head + thread * Span<T>::kVector;
  if constexpr (Held::kHasExponentials) {
    vectors.Store(first, count, stride, normalizer(max));
  } else {
    vectors.Store(first, count, stride, normalizer);
  }
  StoreEdge(to, edge, edge_value, normalizer);
}

template <class T, class Held, class Exponentials, int kMostThreads, int kBlocks>
void LaunchHeld(const FusedLaunch<T>& launch) {
  constexpr long kElementsAWarp = 32L * Held::kVectors * Span<T>::kVector;
  const auto threads = 32 * static_cast<unsigned>((launch.columns - 1) / kElementsAWarp + 1);
  RegistersKernel<T, Held, Exponentials, kMostThreads, kBlocks>
      <<<static_cast<unsigned>(launch.rows), threads, 0, launch.stream>>>(launch.in, launch.out,
                                                                          launch.columns);
  CUDA_CHECK(cudaGetLastError());
}

// The compiler may use as many registers as leave room for kBlocks blocks of kMostThreads threads
// on an SM.
template <class T, class Held, int kMostThreads, int kBlocks,
          class Exponentials = typename Format<T>::FastExponentials>
constexpr Kernel<T> kHolding{0, Held::kVectors,
                             LaunchHeld<T, Held, Exponentials, kMostThreads, kBlocks>};

// The table has fewer regimes for float32.
template <class T>
constexpr Kernel<T> kElementsKernels[] = {
    kHolding<T, Vectors<T, 3>, 1024, 2>,
    kHolding<T, Vectors<T, 6>, 768, 2, Exponentials>,  // takes two registers fewer
    kHolding<T, Vectors<T, 8>, 1024, 1>,
};
template <>
constexpr Kernel<float> kElementsKernels<float>[2] = {
    kHolding<float, Vectors<float, 6>, 768, 2>,
    kHolding<float, Vectors<float, 8>, 1024, 1>,
};
template <class T>
constexpr Kernel<T> kExponentialsKernels[] = {
    kHolding<T, KeptVectors<T, 2>, 1024, 2>, kHolding<T, KeptVectors<T, 3>, 1024, 1>,
    kHolding<T, KeptVectors<T, 4>, 1024, 1>, kHolding<T, KeptVectors<T, 5>, 832, 1>,
    kHolding<T, KeptVectors<T, 6>, 768, 1>,
};
template <>
constexpr Kernel<float> kExponentialsKernels<float>[2] = {
    kHolding<float, KeptVectors<float, 2>, 1024, 2>,
    kHolding<float, KeptVectors<float, 3>, 1024, 1>,
};

template <class T>
bool EveryRowIsAligned(const FusedLaunch<T>& launch) {
  const auto start = reinterpret_cast<std::uintptr_t>(launch.in);
  const auto to = reinterpret_cast<std::uintptr_t>(launch.out);
  return (start | to | launch.columns * sizeof(T)) % 16 == 0;
}

template <class T>
void LaunchFused(const SoftmaxProblem& problem, const FusedLaunch<T>& launch) {
  SoftmaxTraits traits{EveryRowIsAligned(launch)};
  SoftmaxRegime regime = SoftmaxRegimeOf(launch.columns, problem.element, traits);
  // The device is asked only where it matters.
  if (regime.kind == SoftmaxRegimeKind::kParts) {
    traits.longest_parts_bytes = LongestSoftmaxParts_bytes(launch.stream);
    regime = SoftmaxRegimeOf(launch.columns, problem.element, traits);
  }
  switch (regime.kind) {
    case SoftmaxRegimeKind::kLanes:
      return LaunchShortRows(launch, regime);
    case SoftmaxRegimeKind::kExponentials:
      return LaunchOneOf(kExponentialsKernels<T>, launch, regime);
    case SoftmaxRegimeKind::kElements:
      return LaunchOneOf(kElementsKernels<T>, launch, regime);
    case SoftmaxRegimeKind::kParts:
      return LaunchParts(launch, regime);
    case SoftmaxRegimeKind::kSpread:
      return LaunchSpreadRows(launch);
  }
}

}  // namespace

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
