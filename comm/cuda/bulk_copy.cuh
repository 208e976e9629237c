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
// chunks of its tile. A slot of kSlotWords holds a chunk of every source.
template <int kSlotWords>
class Cursor {
 public:
  __device__ Cursor(const PackedMoves& plan, const Share& share)
      : plan_(plan),
        share_(share),
        move_(share.first_move),
        tile_(share.first_move < share.end_move ? share.first * plan.tile_words
                                                : plan.piece_words) {
    BeginTile();
  }
  [[nodiscard]] __device__ bool Valid() const { return tile_ < plan_.piece_words; }
  [[nodiscard]] __device__ const AddressedMove& move() const { return plan_.moves[move_]; }
  // The chunk's first word in the move's buffers, and how many words it has at most and here.
  [[nodiscard]] __device__ long first() const { return first_; }
  [[nodiscard]] __device__ int most_words() const { return most_words_; }
  [[nodiscard]] __device__ int words() const {
    return static_cast<int>(min(static_cast<long>(most_words_), end_ - first_));
  }
  [[nodiscard]] __device__ std::uint32_t bytes() const { return words() * sizeof(uint4); }
  __device__ void Next() {
    first_ += most_words_;
    if (first_ < end_) return;
    NextMove();
    BeginTile();
  }

 private:
  __device__ void NextMove() {
    if (++move_ < share_.end_move) return;
    move_ = share_.first_move;
    tile_ += share_.blocks * plan_.tile_words;
  }
  // The last tiles of shorter moves are empty.
  __device__ void BeginTile() {
    constexpr int kWarp = 32;
    for (; Valid(); NextMove()) {
      const int sources = move().sources;
      most_words_ = sources == 1 ? kSlotWords : kSlotWords / sources / kWarp * kWarp;
      first_ = plan_.PieceOf(move_, share_.step) * plan_.piece_words + tile_;
      end_ = min(first_ + min(plan_.tile_words, plan_.piece_words - tile_), move().words);
      if (first_ < end_) return;
    }
  }

  const PackedMoves& plan_;
  const Share& share_;
  int move_;
  long tile_;  // its first word in the piece
  int most_words_ = 0;
  long first_ = 0;
  long end_ = 0;
};

}  // namespace overlapbench
