// The softmax's CUDA kernels, for softmax.cc and the C library.
#pragma once

#include <cuda_runtime.h>

#include "kernels/softmax.h"

namespace overlapbench {

void LaunchUnfusedSoftmax(cudaStream_t stream, const SoftmaxProblem& problem);
void LaunchBlockPerRowSoftmax(cudaStream_t stream, const SoftmaxProblem& problem);
void LaunchFusedSoftmax(cudaStream_t stream, const SoftmaxProblem& problem);
void LaunchTwoPassSoftmax(cudaStream_t stream, const SoftmaxProblem& problem);

// What kFused keeps in its workspace: the ring's counters.
struct SoftmaxRingCounters {
  unsigned taken_rows;         // beside the first of every cluster
  unsigned finished_clusters;  // the last one sets both counters back to 0
};

}  // namespace overlapbench
