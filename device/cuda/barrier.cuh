// Barrier: an mbarrier in shared memory, which counts arrivals and the bytes of bulk copies.
//
//   barrier.Initialize(1);             // one thread; FenceInitialized() before others use it
//   barrier.Expect(bytes);             // arrives, and makes the phase wait for so many bytes
//   barrier.Load(to, from, bytes);     // a bulk copy from global to shared memory
//   barrier.Wait(0);                   // any thread: the phase has ended, and the data is there
//
// Phases alternate between the parities 0 and 1, beginning with 0. A wait for parity 1 of a new
// barrier ends at once.
//
// For kernels of Hopper and later GPUs: code that uses it must be guarded by __CUDA_ARCH__.
// Sources: PTX ISA, "mbarrier" and "cp.async.bulk".
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace overlapbench {

__device__ inline std::uint32_t SharedAddress(const void* data) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(data));
}

class Barrier {
 public:
  __device__ void Initialize(int arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(address()), "r"(arrivals)
                 : "memory");
  }
  __device__ void Arrive() {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(address()) : "memory");
  }
  __device__ void Expect(std::uint32_t bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(address()),
                 "r"(bytes)
                 : "memory");
  }
  // Addresses and bytes are multiples of 16.
  __device__ void Load(void* to, const void* from, std::uint32_t bytes) {
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, "
        "[%3];" ::"r"(SharedAddress(to)),
        "l"(from), "r"(bytes), "r"(address())
        : "memory");
  }
  // Whether the phase of this parity has ended. One instruction tests for the whole warp, so all
  // its lanes get the same result.
  [[nodiscard]] __device__ bool Test(std::uint32_t parity) const {
    unsigned ended = 0;
    asm volatile(
        "{\n"
        ".reg .pred ended;\n"
        "mbarrier.test_wait.parity.shared::cta.b64 ended, [%1], %2;\n"
        "selp.u32 %0, 1, 0, ended;\n"
        "}"
        : "=r"(ended)
        : "r"(address()), "r"(parity)
        : "memory");
    return ended != 0;
  }
  // Waits for the end of the phase.
  __device__ void Wait(std::uint32_t parity) const {
    asm volatile(
        "{\n"
        ".reg .pred ended;\n"
        "again: mbarrier.try_wait.parity.shared::cta.b64 ended, [%0], %1;\n"
        "@!ended bra again;\n"
        "}" ::"r"(address()),
        "r"(parity)
        : "memory");
  }
  // Waits for it briefly, and leaves the issue slots to other warps meanwhile.
  __device__ void Rest(std::uint32_t parity) const {
    constexpr unsigned kMost_ns = 40;
    asm volatile(
        "{\n"
        ".reg .pred ended;\n"
        "mbarrier.try_wait.parity.shared::cta.b64 ended, [%0], %1, %2;\n"
        "}" ::"r"(address()),
        "r"(parity), "r"(kMost_ns)
        : "memory");
  }

 private:
  [[nodiscard]] __device__ std::uint32_t address() const { return SharedAddress(&bits_); }
  std::uint64_t bits_;
};

// Makes this thread's initializations visible to other threads and to bulk copies.
__device__ inline void FenceInitialized() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

}  // namespace overlapbench
