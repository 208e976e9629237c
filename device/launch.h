// Launch: one kernel source for both backends.
//
// A kernel is a `Body`: a copyable struct that names its threads a block and whose call operator
// does one thread's share of one block.
//
//   struct Scale {
//     static constexpr int kThreads = 256;
//     float* data; long count;
//     OVERLAPBENCH_BODY void operator()(const Block& block) const {
//       block.ForEach(count, [this](long i) { data[i] *= 2; });
//     }
//   };
//   Launch(stream, /*blocks=*/132, Scale{data, count});
//
// On a GPU the body runs on a grid of `blocks` blocks of kThreads threads. On the host backend a
// block has ONE thread (block.threads == 1) and blocks are shared among the device's cores, so a
// body must loop over its block's work with stride `block.threads` and never assume a thread count.
// Bodies that need shared memory or barriers are CUDA kernels in their own right and do not use
// this.
//
// Source files that call Launch end in .cu: nvcc compiles them for both backends, and a build
// without CUDA compiles the same file as plain C++ for the host backend.
#pragma once

#include "device/device.h"
#include "device/host/host_stream.h"

#ifdef __CUDACC__
#include <cuda_runtime.h>

#include <algorithm>

#include "device/cuda/cuda_check.h"
#define OVERLAPBENCH_BODY __host__ __device__
#else
#define OVERLAPBENCH_BODY
#endif

namespace overlapbench {

struct Block {
  int index;    // of this block in the grid
  int count;    // blocks in the grid
  int thread;   // of this thread in the block
  int threads;  // threads in the block

  // Calls visit(i) for this thread's share of 0 … count − 1. Blocks take whole tiles in turn, so
  // that a block's accesses are contiguous: coalesced on a GPU, sequential on a core.
  template <long TileSize = 4096, class Visit>
  OVERLAPBENCH_BODY void ForEach(long element_count, Visit visit) const {
    for (long tile = index * TileSize; tile < element_count; tile += count * TileSize) {
      const long end = tile + TileSize < element_count ? tile + TileSize : element_count;
      for (long i = tile + thread; i < end; i += threads) visit(i);
    }
  }
};

#ifdef __CUDACC__
// How many blocks of a body an SM is to hold at once: 1,536 threads. The compiler then has 40
// registers a thread to spend on loads in flight, where a full SM would leave it 32; a grid of few
// blocks needs them.
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

template <class Body>
void Launch(Stream& stream, int blocks, const Body& body) {
  if (HostStream* host = stream.host()) {
    host->EnqueueBlocks(blocks, [body, blocks](int index) { body(Block{index, blocks, 0, 1}); });
  } else {
    LaunchOnGpu(stream, blocks, body);
  }
}

}  // namespace overlapbench
