// How the SMs that share a row exchange the sums of its parts, in device memory.
//
// A part's maximum and sum are written at once, each with the tag of the launch. The tag tells a
// reader whether they are there, so nothing needs to be reset. No wait for another block's lasts:
// it ends after some milliseconds, because other kernels may hold the SMs that would compute them.
//
// Source: PTX ISA, "Memory Consistency Model", for 8 bytes that are written and read at once.
#pragma once

#include "kernels/cuda/softmax_part.cuh"

namespace overlapbench::softmax {

__device__ __forceinline__ std::uint64_t Tagged(float value, unsigned tag) {
  return static_cast<std::uint64_t>(tag) << 32 | __float_as_uint(value);
}
__device__ __forceinline__ bool HasTag(std::uint64_t half, unsigned tag) {
  return half >> 32 == tag;
}
__device__ __forceinline__ float ValueOf(std::uint64_t half) {
  return __uint_as_float(static_cast<unsigned>(half));
}

__device__ __forceinline__ void Publish(PartsWorkspace::Sum* sum, const Partial& partial,
                                        unsigned tag) {
  asm volatile("st.relaxed.gpu.global.v2.b64 [%0], {%1, %2};" ::"l"(sum),
               "l"(Tagged(partial.max, tag)), "l"(Tagged(partial.sum, tag))
               : "memory");
}
__device__ __forceinline__ PartsWorkspace::Sum Look(const PartsWorkspace::Sum* sum) {
  PartsWorkspace::Sum seen;
  asm volatile("ld.relaxed.gpu.global.v2.b64 {%0, %1}, [%2];"
               : "=l"(seen.max), "=l"(seen.sum)
               : "l"(sum)
               : "memory");
  return seen;
}

__device__ __forceinline__ bool IsThere(const PartsWorkspace::Sum& seen, unsigned tag) {
  return HasTag(seen.max, tag) && HasTag(seen.sum, tag);
}

// Waits for the sum of a part of this block, which its publisher always writes.
__device__ __forceinline__ void AwaitOwn(const PartsWorkspace::Sum* sum, unsigned tag) {
  while (!IsThere(Look(sum), tag)) {
  }
}

// A look takes a trip to memory, so these are some milliseconds.
constexpr unsigned kMostLooks = 1U << 13;

// Waits for the sums of all parts of a row, and merges them. Called by a whole warp. Returns false
// if one of them was not there after so many looks at it. A lane looks at kLooks of them before it
// waits for the first, since a trip to memory for each would delay long rows.
template <unsigned kLooks>
__device__ __forceinline__ bool Collect(const PartsWorkspace::Sum* sums, unsigned parts,
                                        unsigned tag, unsigned most_looks, Partial& row) {
  Partial merged = NoPartial();
  unsigned looks = 0;
  for (unsigned first = threadIdx.x % 32; first < parts && looks < most_looks;
       first += 32 * kLooks) {
    PartsWorkspace::Sum seen[kLooks];
#pragma unroll
    for (unsigned i = 0; i < kLooks; ++i)
      if (first + 32 * i < parts) seen[i] = Look(sums + first + 32 * i);
#pragma unroll
    for (unsigned i = 0; i < kLooks; ++i) {
      if (first + 32 * i >= parts) break;
      while (!IsThere(seen[i], tag) && ++looks < most_looks) seen[i] = Look(sums + first + 32 * i);
      merged = Merge(merged, {ValueOf(seen[i].max), ValueOf(seen[i].sum)});
    }
  }
  __syncwarp();
  row = MergeOverWarp(merged);
  return __all_sync(kWholeWarp, looks < most_looks);
}

}  // namespace overlapbench::softmax
