// The launchers of the fused softmax, one a file, for kernels/cuda/softmax_fused.cu alone. They are
// instantiated for float, __half and __nv_bfloat16.
#pragma once

#include <cuda_runtime.h>

#include "kernels/cuda/softmax.h"
#include "kernels/softmax_regimes.h"

namespace overlapbench::softmax {

template <class T>
struct FusedLaunch {
  const T* in;
  T* out;
  long rows;
  int columns;
  cudaStream_t stream;
};

// kStaged: kernels/cuda/softmax_staged.cu.
template <class T>
void LaunchStagedRows(const FusedLaunch<T>& launch, const SoftmaxRegime& regime);
// kLanes: kernels/cuda/softmax_short.cu.
template <class T>
void LaunchShortRows(const FusedLaunch<T>& launch, const SoftmaxRegime& regime);
// kRegisters: kernels/cuda/softmax_fused.cu.
template <class T>
void LaunchRegisters(const FusedLaunch<T>& launch, const SoftmaxRegime& regime);
// kRing: kernels/cuda/softmax_ring.cu.
template <class T>
void LaunchRing(const FusedLaunch<T>& launch, const SoftmaxRegime& regime,
                SoftmaxRingCounters* counters);

}  // namespace overlapbench::softmax
