// The GPU kernels in this folder, as the workloads and the C library (kernels/library/) launch
// them: on any cudaStream_t of the current device.
#pragma once

#include <cuda_runtime.h>

#include "kernels/gelu.h"
#include "kernels/softmax.h"

namespace overlapbench {

// The variants kFusedScalar and kFused of kernels/gelu.h.
void LaunchFusedGelu(cudaStream_t stream, const GeluProblem& problem);

// The variants of kernels/softmax.h.
void LaunchUnfusedSoftmax(cudaStream_t stream, const SoftmaxProblem& problem);
void LaunchBlockPerRowSoftmax(cudaStream_t stream, const SoftmaxProblem& problem);
void LaunchFusedSoftmax(cudaStream_t stream, const SoftmaxProblem& problem);
void LaunchTwoPassSoftmax(cudaStream_t stream, const SoftmaxProblem& problem);

// The longest rows that the softmax's regime kParts takes on this stream of the current device. 0
// if the device lacks what it needs: bulk copies, and enough shared memory and SMs.
long LongestSoftmaxParts_bytes(cudaStream_t stream);

}  // namespace overlapbench
