// Meeting: how blocks of the same index on different GPUs wait for each other.
//
// Each rank writes the number of the meeting into the others' memory, and waits for theirs in its
// own. Memory ordering follows the PTX ISA, "Memory Consistency Model": a release by one thread
// after a barrier covers the writes of all threads of the block, and an acquire before a barrier
// holds for all of them. `fence.proxy.async` extends this to bulk copies.
#pragma once

#include <cstdint>

#include "comm/cuda/peer_move.h"
#include "device/cuda/gpu_clock.h"

namespace overlapbench {

// Orders bulk copies with this thread's other accesses; GPUs before Hopper have no bulk copies.
__device__ inline void FenceBulkCopies() {
#if __CUDA_ARCH__ >= 900
  asm volatile("fence.proxy.async;" ::: "memory");
#endif
}

__device__ inline void StoreReleased(std::uint32_t* flag, std::uint32_t value) {
  FenceBulkCopies();
  asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(flag), "r"(value) : "memory");
}

__device__ inline void StoreRelaxed(std::uint32_t* flag, std::uint32_t value) {
  asm volatile("st.relaxed.sys.global.u32 [%0], %1;" ::"l"(flag), "r"(value) : "memory");
}

__device__ inline std::uint32_t LoadAcquired(const std::uint32_t* flag) {
  std::uint32_t value;
  asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(value) : "l"(flag) : "memory");
  return value;
}

// Waits until `look` returns true. Returns false if the wait was given up.
template <class Look>
__device__ bool Await(const PeerMeeting& meeting, const Look& look) {
  constexpr int kSpins = 1000;  // between two reads of host memory, which are slow
  std::uint64_t deadline_ns = 0;
  for (;;) {
    for (int spin = 0; spin < kSpins; ++spin) {
      if (look()) return true;
    }
    if (deadline_ns == 0) deadline_ns = GpuNow_ns() + meeting.timeout_ns;
    if (LoadAcquired(meeting.stop) != 0 || GpuNow_ns() > deadline_ns) return false;
  }
}

// Waits until `flag` is `number` or later. Compares by difference, because numbers wrap around.
__device__ inline bool Arrived(const std::uint32_t* flag, std::uint32_t number,
                               const PeerMeeting& meeting) {
  return Await(meeting, [flag, number] {
    return static_cast<std::int32_t>(LoadAcquired(flag) - number) >= 0;
  });
}

// The number of this kernel's first meeting.
__device__ inline std::uint32_t FirstNumber(const PeerMeeting& meeting) {
  return meeting.counts == nullptr ? meeting.number : meeting.counts[blockIdx.x] + 1;
}

// Meeting `index` of this kernel. Returns whether all ranks have arrived. Called by all threads of
// a block. `publishes`: whether the other ranks must see this block's writes. Only then is a
// release needed, which waits until earlier writes have arrived. Reads need no release, since no
// thread leaves the barrier before its loads have returned. Writes of earlier kernels need none
// either: they became visible when those kernels ended.
__device__ inline bool Meet(const PeerMeeting& meeting, std::uint32_t index, bool publishes) {
  const std::uint32_t number = FirstNumber(meeting) + index;
  const int peer = static_cast<int>(threadIdx.x);
  const int first = static_cast<int>(blockIdx.x) * kMostPeers;
  bool arrived = true;
  __syncthreads();
  if (peer < meeting.ranks && peer != meeting.rank) {
    std::uint32_t* const flag = meeting.flags[peer] + first + meeting.rank;
    if (publishes)
      StoreReleased(flag, number);
    else
      StoreRelaxed(flag, number);
    arrived = Arrived(meeting.flags[meeting.rank] + first + peer, number, meeting);
    if (!arrived) *meeting.failed = 1;
    FenceBulkCopies();
  }
  return __syncthreads_and(static_cast<int>(arrived)) != 0;
}

// Ends a block that took `meetings` numbers, and says where it ran. All of its threads must have
// read the first number.
__device__ inline void EndMeetings(const PeerMeeting& meeting, std::uint32_t meetings) {
  if (threadIdx.x != 0) return;
  asm("mov.u32 %0, %%smid;" : "=r"(meeting.multiprocessors[blockIdx.x]));
  if (meeting.counts != nullptr) meeting.counts[blockIdx.x] += meetings;
}

}  // namespace overlapbench
