#include <cuda_runtime.h>

#include <algorithm>

#include "comm/cuda/bulk_copy.cuh"
#include "comm/cuda/peer_meeting.cuh"
#include "device/cuda/cuda_check.h"

namespace overlapbench {
namespace {

// A build for earlier GPUs leaves this file's device code unused.
#pragma nv_diag_suppress 177
// One thread moves; the others keep other kernels' blocks off the SM.
constexpr int kBulkThreads = 1024;
constexpr int kStageBytes = 16 * 1024;
constexpr int kStages = 12;
// Stages being filled. Few are being emptied, because SMs that send faster than the link accepts
// slow each other down.
constexpr int kAhead = 9;
constexpr int kStageWords = kStageBytes / static_cast<int>(sizeof(uint4));
constexpr long kTileStages = 4;

struct Ring {
  uint4 words[kStages * kStageWords];
  Barrier filled[kStages];
  std::uint32_t steps;  // so far; their remainders give the stage and the barrier's phase

  __device__ uint4* Stage(std::uint32_t step) { return words + step % kStages * kStageWords; }
};

// ---- Moving

// Run by one thread. Loads run ahead of stores.
__device__ void CopyPhase(const PackedMoves& plan, const Share& share, Ring& ring) {
  Cursor load(plan, share, kStageWords);
  std::uint32_t loaded = ring.steps;
  const auto fill = [&] {
    if (!load.Valid(plan)) return;
    Barrier& filled = ring.filled[loaded % kStages];
    filled.Expect(load.Bytes(plan));
    filled.Load(ring.Stage(loaded++), load.In(share.moves[load.move].from[0]), load.Bytes(plan));
    load.Next(plan, share);
  };
  for (int i = 0; i < kAhead; ++i) fill();
  for (Cursor store(plan, share, kStageWords); store.Valid(plan);
       store.Next(plan, share), ++ring.steps) {
    ring.filled[ring.steps % kStages].Wait(ring.steps / kStages % 2);
    BulkStore(store.In(share.moves[store.move].to[0]), ring.Stage(ring.steps), store.Bytes(plan));
    CommitStores<kStages - kAhead - 1>();
    fill();
  }
  AwaitStores();
}

// A block's share of a phase. If a phase has copies both within this GPU and to peers, each half of
// the blocks does one kind: half of the SMs saturate the link, and more would slow it down.
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
#if __CUDA_ARCH__ >= 900  // earlier GPUs have no bulk copies
  extern __shared__ __align__(128) unsigned char shared[];
  Ring& ring = *reinterpret_cast<Ring*>(shared);
  if (threadIdx.x == 0) {
    for (Barrier& barrier : ring.filled) barrier.Initialize(1);
    ring.steps = 0;
    FenceSharedWrites();
  }
  int first = 0;
  for (int phase = 0; phase < plan.phases; ++phase) {
    if (!Meet(meeting, phase, phase > 0)) return;
    if (threadIdx.x == 0)
      CopyPhase(plan, ShareOf(plan, plan.moves + first, plan.phase_ends[phase] - first), ring);
    first = plan.phase_ends[phase];
  }
  if (Meet(meeting, plan.phases, plan.ends_at_peers)) SayWhereThisRan(meeting);
#endif
}

// Splits copies by destination, those within this GPU first: with two stores, a stage would be
// emptied at the slower one's rate.
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
  const auto native = static_cast<cudaStream_t>(stream.native());
  MoveInBulk<<<blocks, kBulkThreads, sizeof(Ring), native>>>(packed, meeting);
  CUDA_CHECK(cudaGetLastError());
}

}  // namespace overlapbench
