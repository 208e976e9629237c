// Bulk copies from shared to global memory, and the chunks in which a block moves its share of a
// plan. For kernels of Hopper and later GPUs, like the barriers that bulk loads complete
// (device/cuda/barrier.cuh).
#pragma once

#include <cstdint>

#include "comm/cuda/peer_move.h"
#include "device/cuda/barrier.cuh"

namespace overlapbench {

// ---- Instructions (PTX ISA, "Asynchronous copy")

__device__ inline void BulkStore(void* global, const void* shared, std::uint32_t bytes) {
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(global),
               "r"(SharedAddress(shared)), "r"(bytes)
               : "memory");
}
// Ends a group of stores, and waits until the shared memory of all but the last `kPending` groups
// can be reused.
template <int kPending>
__device__ void CommitStores() {
  asm volatile("cp.async.bulk.commit_group;\n cp.async.bulk.wait_group.read %0;" ::"n"(kPending)
               : "memory");
}
// Makes this thread's writes to shared memory visible to bulk copies.
__device__ inline void FenceSharedWrites() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
__device__ inline void AwaitStores() { asm volatile("cp.async.bulk.wait_group 0;" ::: "memory"); }

// ---- Chunks

// A block's tiles of a phase's moves: every `blocks`-th, beginning with `first`.
struct Share {
  const AddressedMove* moves;
  int count;
  int first;
  int blocks;
};

// Iterates over a block's steps in a phase: its tiles, for each all moves, and for each their
// chunks of at most `chunk_words`.
struct Cursor {
  int chunk_words;
  long tile;
  int move = 0;
  int offset = 0;

  __device__ Cursor(const PackedMoves& plan, const Share& share, int most_words)
      : chunk_words(most_words),
        tile(share.count > 0 ? share.first * plan.tile_words : plan.words) {}
  [[nodiscard]] __device__ bool Valid(const PackedMoves& plan) const { return tile < plan.words; }
  [[nodiscard]] __device__ int TileWords(const PackedMoves& plan) const {
    return static_cast<int>(min(plan.tile_words, plan.words - tile));
  }
  [[nodiscard]] __device__ int Words(const PackedMoves& plan) const {
    return min(chunk_words, TileWords(plan) - offset);
  }
  [[nodiscard]] __device__ std::uint32_t Bytes(const PackedMoves& plan) const {
    return Words(plan) * sizeof(uint4);
  }
  // This chunk's address in one of the move's buffers.
  [[nodiscard]] __device__ const uint4* In(const void* move) const {
    return static_cast<const uint4*>(move) + tile + offset;
  }
  [[nodiscard]] __device__ uint4* In(void* move) const {
    return static_cast<uint4*>(move) + tile + offset;
  }
  __device__ void Next(const PackedMoves& plan, const Share& share) {
    offset += chunk_words;
    if (offset < TileWords(plan)) return;
    offset = 0;
    if (++move < share.count) return;
    move = 0;
    tile += share.blocks * plan.tile_words;
  }
};

}  // namespace overlapbench
