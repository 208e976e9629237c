// Launch: one kernel source for both backends.
//
//   Launch(stream, /*blocks=*/132, Scale{data, count});
//
// runs a body (device/body.h) on a GPU, or on the cores of the host backend.
//
// Source files that call Launch end in .cu: nvcc compiles them for both backends, and a build
// without CUDA compiles the same file as plain C++ for the host backend.
#pragma once

#include <algorithm>

#include "device/body.h"
#include "device/device.h"

#ifdef __CUDACC__
#include <cuda_runtime.h>

#include "device/cuda/cuda_check.h"
#endif

namespace overlapbench {

#ifdef __CUDACC__
// How many blocks of a body an SM should hold at once: 1,536 threads. That leaves the compiler 40
// registers per thread for loads in flight; a full SM would leave 32. A grid of few blocks needs
// them.
template <class Body>
constexpr int BlocksPerMultiprocessor() {
  constexpr int kThreadsPerMultiprocessor = 1536;
  constexpr int kMostBlocks = 16;
  return std::clamp(kThreadsPerMultiprocessor / Body::kThreads, 1, kMostBlocks);
}

template <class Body>
__global__ __launch_bounds__(Body::kThreads,
                             BlocksPerMultiprocessor<Body>()) void RunBody(Body body) {
  body(Block{static_cast<int>(blockIdx.x), static_cast<int>(gridDim.x),
             static_cast<int>(threadIdx.x), static_cast<int>(blockDim.x)});
}

// How many blocks of a body are on an SM at once when enough are launched.
template <class Body>
int ResidentBlocksPerMultiprocessor() {
  int blocks = 0;
  CUDA_CHECK(
      cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, RunBody<Body>, Body::kThreads, 0));
  return blocks;
}

template <class Body>
void LaunchOnGpu(Stream& stream, int blocks, const Body& body) {
  RunBody<<<blocks, Body::kThreads, 0, static_cast<cudaStream_t>(stream.native())>>>(body);
  CUDA_CHECK(cudaGetLastError());
}
#else
template <class Body>
int ResidentBlocksPerMultiprocessor() {
  return 1;
}

template <class Body>
void LaunchOnGpu(Stream& /*stream*/, int /*blocks*/, const Body& /*body*/) {
  throw Error("this build has no CUDA kernels");
}
#endif

// Blocks for all items, so many each. More than 8,192 do not help: blocks take further items in
// turn.
inline int BlocksFor(long items, long items_a_block) {
  constexpr long kMost = 8192;
  return static_cast<int>(std::clamp((items + items_a_block - 1) / items_a_block, 1L, kMost));
}

template <class Body>
void Launch(Stream& stream, int blocks, const Body& body) {
  if (stream.on_host()) {
    stream.EnqueueBlocks(blocks, [body, blocks](int index) { body(Block{index, blocks, 0, 1}); });
  } else {
    LaunchOnGpu(stream, blocks, body);
  }
}

}  // namespace overlapbench
