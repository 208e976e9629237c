#include <cuda_runtime.h>

#include <algorithm>

#include "comm/cuda/peer_meeting.cuh"
#include "device/cuda/cuda_check.h"

namespace overlapbench {
namespace {

// A build for earlier GPUs leaves this file's device code unused.
#pragma nv_diag_suppress 177
constexpr int kBulkThreads = 1024;  // one works; the others keep other kernels' blocks off the SM
constexpr int kStageBytes = 16 * 1024;
constexpr int kStages = 12;
// Stages that are being filled. Those being emptied are few: what SMs send faster than the link
// takes it slows all of them down.
constexpr int kAhead = 9;
constexpr int kStageWords = kStageBytes / static_cast<int>(sizeof(uint4));
constexpr long kTileStages = 4;

struct Ring {
  uint4 stages[kStages][kStageWords];
  std::uint64_t filled[kStages];  // an mbarrier each
  std::uint32_t steps;            // so far; its remainders name the stage and the barrier's phase
};

// ---- Instructions (PTX ISA, "Asynchronous copy" and "mbarrier")

__device__ std::uint32_t SharedAddress(const void* pointer) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(pointer));
}
__device__ void InitBarrier(std::uint64_t* barrier) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(SharedAddress(barrier)) : "memory");
}
__device__ void ExpectBytes(std::uint64_t* barrier, std::uint32_t bytes) {
  asm volatile(
      "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(SharedAddress(barrier)),
      "r"(bytes)
      : "memory");
}
__device__ void AwaitBarrier(std::uint64_t* barrier, std::uint32_t parity) {
  std::uint32_t done = 0;
  while (done == 0) {
    asm volatile(
        "{ .reg .pred done;\n"
        "mbarrier.try_wait.parity.shared::cta.b64 done, [%1], %2;\n"
        "selp.u32 %0, 1, 0, done; }"
        : "=r"(done)
        : "r"(SharedAddress(barrier)), "r"(parity)
        : "memory");
  }
}
__device__ void BulkLoad(void* shared, const void* global, std::uint32_t bytes,
                         std::uint64_t* barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
          "r"(SharedAddress(shared)),
      "l"(global), "r"(bytes), "r"(SharedAddress(barrier))
      : "memory");
}
// And waits until the stages of all but the last few stores can be filled again.
__device__ void BulkStore(void* global, const void* shared, std::uint32_t bytes) {
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(global),
               "r"(SharedAddress(shared)), "r"(bytes)
               : "memory");
  asm volatile(
      "cp.async.bulk.commit_group;\n cp.async.bulk.wait_group.read %0;" ::"n"(kStages - kAhead - 1)
      : "memory");
}
__device__ void AwaitStores() { asm volatile("cp.async.bulk.wait_group 0;" ::: "memory"); }

// ---- Moving

// Which tiles of a phase's moves are a block's: every `blocks`-th, beginning with `first`.
struct Share {
  const AddressedMove* moves;
  int count;
  int first;
  int blocks;
};

// The steps of a block in a phase, one after the other: its tiles, in each all moves, in each its
// chunks.
struct Cursor {
  long tile;
  int move = 0;
  int offset = 0;

  __device__ Cursor(const PackedMoves& plan, const Share& share)
      : tile(share.count > 0 ? share.first * plan.tile_words : plan.words) {}
  [[nodiscard]] __device__ bool Valid(const PackedMoves& plan) const { return tile < plan.words; }
  [[nodiscard]] __device__ int TileWords(const PackedMoves& plan) const {
    return static_cast<int>(min(plan.tile_words, plan.words - tile));
  }
  [[nodiscard]] __device__ std::uint32_t Bytes(const PackedMoves& plan) const {
    return min(kStageWords, TileWords(plan) - offset) * sizeof(uint4);
  }
  __device__ void Next(const PackedMoves& plan, const Share& share) {
    offset += kStageWords;
    if (offset < TileWords(plan)) return;
    offset = 0;
    if (++move < share.count) return;
    move = 0;
    tile += share.blocks * plan.tile_words;
  }
};

// By one thread: loads run ahead of stores.
__device__ void DoPhase(const PackedMoves& plan, const Share& share, Ring& ring) {
  Cursor load(plan, share);
  std::uint32_t loaded = ring.steps;
  const auto fill = [&] {
    if (!load.Valid(plan)) return;
    const int stage = static_cast<int>(loaded++ % kStages);
    ExpectBytes(&ring.filled[stage], load.Bytes(plan));
    BulkLoad(ring.stages[stage],
             static_cast<const uint4*>(share.moves[load.move].from[0]) + load.tile + load.offset,
             load.Bytes(plan), &ring.filled[stage]);
    load.Next(plan, share);
  };
  for (int i = 0; i < kAhead; ++i) fill();
  for (Cursor store(plan, share); store.Valid(plan); store.Next(plan, share), ++ring.steps) {
    const int stage = static_cast<int>(ring.steps % kStages);
    AwaitBarrier(&ring.filled[stage], ring.steps / kStages % 2);
    BulkStore(static_cast<uint4*>(share.moves[store.move].to[0]) + store.tile + store.offset,
              ring.stages[stage], store.Bytes(plan));
    fill();
  }
  AwaitStores();
}

// A block's share of a phase. Where copies within this GPU stand before those to peers, each half
// of the blocks does one kind: half of the SMs fill the link, and more would slow it down.
__device__ Share ShareOf(const PackedMoves& plan, const AddressedMove* moves, int count) {
  const int block = static_cast<int>(blockIdx.x);
  const int blocks = static_cast<int>(gridDim.x);
  const int own = plan.own_moves;
  if (own == 0 || own == count || blocks == 1) return {moves, count, block, blocks};
  const int half = blocks / 2;
  return block < half ? Share{moves, own, block, half}
                      : Share{moves + own, count - own, block - half, blocks - half};
}

__global__ __launch_bounds__(kBulkThreads,
                             1) void MoveInBulk(const __grid_constant__ PackedMoves plan,
                                                const __grid_constant__ PeerMeeting meeting) {
#if __CUDA_ARCH__ >= 900  // earlier ones have no bulk copies
  extern __shared__ __align__(128) unsigned char shared[];
  Ring& ring = *reinterpret_cast<Ring*>(shared);
  if (threadIdx.x == 0) {
    for (auto& barrier : ring.filled) InitBarrier(&barrier);
    ring.steps = 0;
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  }
  std::uint32_t number = meeting.meetings[blockIdx.x];
  int first = 0;
  for (int phase = 0; phase < plan.phases; ++phase) {
    if (!Meet(meeting, ++number, phase > 0)) return;
    if (threadIdx.x == 0)
      DoPhase(plan, ShareOf(plan, plan.moves + first, plan.phase_ends[phase] - first), ring);
    first = plan.phase_ends[phase];
  }
  if (Meet(meeting, ++number, plan.ends_at_peers)) Leave(meeting, number);
#endif
}

// A copy to each destination alone, those within this GPU first. Two stores of a stage would empty
// it at the slower one's pace.
AddressedPlan WithOneDestinationEach(const AddressedPlan& plan) {
  AddressedPlan split = plan;
  for (auto& phase : split.phases) {
    std::vector<AddressedMove> moves;
    for (const AddressedMove& move : phase) {
      for (int i = 0; i < move.destinations; ++i) {
        AddressedMove& one = moves.emplace_back(move);
        one.to[0] = move.to[i];
        one.destinations = 1;
        one.within = move.within >> i & 1U;
      }
    }
    std::ranges::stable_partition(moves, [](const AddressedMove& one) { return one.within != 0; });
    phase = std::move(moves);
  }
  return split;
}

}  // namespace

void EnqueueBulkMoves(Stream& stream, int blocks, const PeerMeeting& meeting,
                      const AddressedPlan& plan) {
  const AddressedPlan split = WithOneDestinationEach(plan);
  PackedMoves packed = Packed(split, blocks, kTileStages * kStageBytes);
  // With more phases, each block must do the same share of all of them.
  if (split.phases.size() == 1) {
    packed.own_moves = static_cast<int>(std::ranges::count_if(
        split.phases[0], [](const AddressedMove& move) { return move.within != 0; }));
  }
  CUDA_CHECK(
      cudaFuncSetAttribute(MoveInBulk, cudaFuncAttributeMaxDynamicSharedMemorySize, sizeof(Ring)));
  MoveInBulk<<<blocks, kBulkThreads, sizeof(Ring), static_cast<cudaStream_t>(stream.native())>>>(
      packed, meeting);
  CUDA_CHECK(cudaGetLastError());
}

}  // namespace overlapbench
