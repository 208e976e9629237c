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

// What a block does in a step: every `blocks`-th tile of some moves, beginning with tile `first`.
struct Share {
  int step;
  int first_move;
  int end_move;
  int first;
  int blocks;
};

// Iterates over a block's chunks in a step: its tiles, for each all moves, and for each of them the
// chunks of its tile. A slot of `slot_words` holds a chunk of every source.
struct Cursor {
  int slot_words;
  int move;
  int offset = 0;
  long tile;  // the first word, counted from the piece's

  __device__ Cursor(const PackedMoves& plan, const Share& share, int slot)
      : slot_words(slot),
        move(share.first_move),
        tile(share.first_move < share.end_move ? share.first * plan.tile_words : plan.piece_words) {
    SkipEmpty(plan, share);
  }
  [[nodiscard]] __device__ bool Valid(const PackedMoves& plan) const {
    return tile < plan.piece_words;
  }
  [[nodiscard]] __device__ int ChunkWords(const PackedMoves& plan) const {
    constexpr int kWarp = 32;
    const int sources = plan.moves[move].sources;
    return sources == 1 ? slot_words : slot_words / sources / kWarp * kWarp;
  }
  // The first word of this chunk, and how many there are.
  [[nodiscard]] __device__ long First(const PackedMoves& plan, const Share& share) const {
    return plan.PieceOf(move, share.step) * plan.piece_words + tile + offset;
  }
  [[nodiscard]] __device__ int Words(const PackedMoves& plan, const Share& share) const {
    const long in_tile = min(plan.tile_words, plan.piece_words - tile) - offset;
    const long in_move = plan.moves[move].words - First(plan, share);
    return static_cast<int>(min(static_cast<long>(ChunkWords(plan)), min(in_tile, in_move)));
  }
  __device__ void Next(const PackedMoves& plan, const Share& share) {
    offset += ChunkWords(plan);
    SkipEmpty(plan, share);
  }

 private:
  __device__ void SkipEmpty(const PackedMoves& plan, const Share& share) {
    while (Valid(plan) && Words(plan, share) <= 0) {
      offset = 0;
      if (++move < share.end_move) continue;
      move = share.first_move;
      tile += share.blocks * plan.tile_words;
    }
  }
};

}  // namespace overlapbench
