// The launchers of the fused softmax's regimes, one per file, for softmax_fused.cu, which has the
// others. They are instantiated for float, __half and __nv_bfloat16.
#pragma once

#include <string>

#include "device/cuda/cuda_check.h"
#include "kernels/cuda/launchers.h"

namespace overlapbench::softmax {

template <class T>
struct FusedLaunch {
  const T* in;
  T* out;
  long rows;
  int columns;
  cudaStream_t stream;
  void* workspace;
};

// A kernel, for the lines of the table of regimes that have its lanes and vectors.
template <class T>
struct Kernel {
  int lanes;
  int vectors;
  void (*launch)(const FusedLaunch<T>&);
};
template <class T, std::size_t kCount>
void LaunchOneOf(const Kernel<T> (&kernels)[kCount], const FusedLaunch<T>& launch,
                 const SoftmaxRegime& regime) {
  for (const auto& kernel : kernels) {
    if (kernel.lanes == regime.lanes && kernel.vectors == regime.vectors)
      return kernel.launch(launch);
  }
  throw Error("softmax has no kernel for the regime '" + ToString(regime) + "'");
}

// kLanes: kernels/cuda/softmax_short.cu.
template <class T>
void LaunchShortRows(const FusedLaunch<T>& launch, const SoftmaxRegime& regime);
// kParts: kernels/cuda/softmax_parts.cu.
template <class T>
void LaunchParts(const FusedLaunch<T>& launch, const SoftmaxRegime& regime);
// kSpread: kernels/cuda/softmax_spread.cu.
template <class T>
void LaunchSpreadRows(const FusedLaunch<T>& launch);

}  // namespace overlapbench::softmax
