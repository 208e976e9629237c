// Body: a kernel's source for both backends (device/launch.h launches it).
//
// A kernel is a `Body`: a copyable struct that names its threads per block and whose call operator
// does one thread's share of one block.
//
//   struct Scale {
//     static constexpr int kThreads = 256;
//     float* data; long count;
//     OVERLAPBENCH_BODY void operator()(const Block& block) const {
//       block.ForEach(count, [this](long i) { data[i] *= 2; });
//     }
//   };
//
// On a GPU the body runs on a grid of blocks of kThreads threads. On the host backend a block has
// ONE thread (block.threads == 1) and blocks are shared among the device's cores, so a body must
// loop over its block's work with stride `block.threads` and never assume a thread count. Bodies
// that need shared memory or barriers are written as CUDA kernels instead.
//
// This file includes nothing, because nvcc parses every include of a kernel's file several times:
// once to split it, once for every architecture, and once for the host.
#pragma once

#ifdef __CUDACC__
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
#ifdef __CUDA_ARCH__
      for (long i = tile + thread; i < end; i += threads) visit(i);
#else
      for (long i = tile; i < end; ++i) visit(i);  // so that the compiler can vectorize it
#endif
    }
  }
};

}  // namespace overlapbench
