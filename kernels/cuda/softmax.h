// The softmax's CUDA kernels, for softmax.cc and the C library.
#pragma once

#include <cuda_runtime.h>

#include "kernels/softmax.h"

namespace overlapbench {

void LaunchUnfusedSoftmax(cudaStream_t stream, const SoftmaxProblem& problem);
void LaunchBlockPerRowSoftmax(cudaStream_t stream, const SoftmaxProblem& problem);
void LaunchFusedSoftmax(cudaStream_t stream, const SoftmaxProblem& problem);
void LaunchTwoPassSoftmax(cudaStream_t stream, const SoftmaxProblem& problem);

// What kFused keeps in its workspace, for rows that are cut into parts.
struct SoftmaxWorkspace {
  static constexpr unsigned kMostParts = 65535;
  // A float each, above it the number of the launch that wrote it.
  struct Sum {
    std::uint64_t max;
    std::uint64_t sum;
  };
  unsigned launches;         // that have ended
  unsigned taken_parts;      // of the current one
  unsigned finished_blocks;  // the last one sets both back to 0
  unsigned unused;
  alignas(16) Sum sums[kMostParts];
};
static_assert(sizeof(SoftmaxWorkspace) == kSoftmaxWorkspaceBytes);

}  // namespace overlapbench
