// GpuNow_ns: a GPU's nanosecond clock, the same for all its SMs (PTX ISA, "Special Registers":
// %globaltimer). For kernels; a build without CUDA has none.
#pragma once

#ifdef __CUDACC__
#include <cstdint>

namespace overlapbench {

__device__ inline std::uint64_t GpuNow_ns() {
  std::uint64_t now_ns = 0;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now_ns));
  return now_ns;
}

}  // namespace overlapbench
#endif
