#include <cuda_runtime.h>

#include <algorithm>

#include "comm/cuda/bulk_copy.cuh"
#include "comm/cuda/peer_meeting.cuh"
#include "comm/cuda/peer_sum.cuh"
#include "device/cuda/cuda_check.h"

namespace overlapbench {
namespace {

// A build for earlier GPUs leaves this file's device code unused.
#pragma nv_diag_suppress 177
// One thread moves, half of the block adds, and all keep other kernels' blocks off the SM.
constexpr int kSumThreads = 1024;
constexpr int kAdders = 512;
constexpr int kFirstAdder = kSumThreads - kAdders;
constexpr int kSumWarp = 32;
// Each slot holds one chunk of every source.
constexpr int kSlots = 12;
constexpr int kMostAhead = 8;  // slots being filled
constexpr int kSlotWords = 16 * 1024 / static_cast<int>(sizeof(uint4));
constexpr std::size_t kSumTileBytes = 64 * 1024;

// How many slots a block fills ahead. If sums go to the peers, the blocks' reads share the link
// with the peers' writes. 72 slots are enough to saturate the link, and more would delay the
// writes: sums of two ranks are fastest with 9 blocks that fill 8 each, 10 that fill 7, or 12 that
// fill 6.
constexpr int kSlotsOfAllBlocks = 72;
int SlotsAhead(int blocks, int destinations) {
  return destinations == 1 ? kMostAhead : std::clamp(kSlotsOfAllBlocks / blocks, 1, kMostAhead);
}

struct SumRing {
  uint4 words[kSlots * kSlotWords];
  Barrier filled[kSlots];
  Barrier added[kSlots];

  __device__ uint4* Slot(std::uint32_t step) { return words + step % kSlots * kSlotWords; }
};

// Loads chunks into the slots, and stores the sums from there to all destinations.
__device__ void MoveSums(const PackedMoves& plan, const Share& share, int chunk_words, int ahead,
                         SumRing& ring) {
  const AddressedMove& move = share.moves[0];
  Cursor load(plan, share, chunk_words);
  std::uint32_t loaded = 0;
  const auto fill = [&] {
    if (!load.Valid(plan)) return;
    Barrier& filled = ring.filled[loaded % kSlots];
    filled.Expect(move.sources * load.Bytes(plan));
    for (int source = 0; source < move.sources; ++source)
      filled.Load(ring.Slot(loaded) + source * chunk_words, load.In(move.from[source]),
                  load.Bytes(plan));
    ++loaded;
    load.Next(plan, share);
  };
  for (int i = 0; i < ahead; ++i) fill();
  std::uint32_t step = 0;
  for (Cursor store(plan, share, chunk_words); store.Valid(plan); store.Next(plan, share), ++step) {
    ring.added[step % kSlots].Wait(step / kSlots % 2);
    for (int to = 0; to < move.destinations; ++to)
      BulkStore(store.In(move.to[to]), ring.Slot(step), store.Bytes(plan));
    CommitStores<kSlots - kMostAhead - 1>();
    fill();
  }
  AwaitStores();
}

// Replaces each slot's first chunk by the sum of its chunks. Run by all adders, each on its own
// words.
template <class Type>
__device__ void AddSlots(const PackedMoves& plan, const Share& share, int chunk_words,
                         SumRing& ring) {
  const int sources = share.moves[0].sources;
  const int thread = static_cast<int>(threadIdx.x);
  std::uint32_t step = 0;
  for (Cursor sum(plan, share, chunk_words); sum.Valid(plan); sum.Next(plan, share), ++step) {
    ring.filled[step % kSlots].Wait(step / kSlots % 2);
    uint4* const slot = ring.Slot(step);
    for (int i = thread - kFirstAdder; i < sum.Words(plan); i += kAdders) {
      Sum<Type> added(slot[i]);
      for (int source = 1; source < sources; ++source) added.Add(slot[source * chunk_words + i]);
      slot[i] = added.Rounded();
    }
    FenceSharedWrites();
    __syncwarp();
    if (thread % kSumWarp == 0) ring.added[step % kSlots].Arrive();
  }
}

template <class Type>
__global__ __launch_bounds__(kSumThreads,
                             1) void SumInBulk(const __grid_constant__ PackedMoves plan,
                                               const __grid_constant__ PeerMeeting meeting,
                                               int ahead) {
#if __CUDA_ARCH__ >= 900  // earlier GPUs have no bulk copies
  extern __shared__ __align__(128) unsigned char shared[];
  SumRing& ring = *reinterpret_cast<SumRing*>(shared);
  const int thread = static_cast<int>(threadIdx.x);
  if (thread == 0) {
    for (Barrier& barrier : ring.filled) barrier.Initialize(1);
    for (Barrier& barrier : ring.added) barrier.Initialize(kAdders / kSumWarp);
    FenceSharedWrites();
  }
  if (!Meet(meeting, 0, false)) return;
  const Share share{plan.moves, 1, static_cast<int>(blockIdx.x), static_cast<int>(gridDim.x)};
  const int chunk_words = kSlotWords / plan.moves[0].sources / kSumWarp * kSumWarp;
  if (thread == 0) MoveSums(plan, share, chunk_words, ahead, ring);
  if (thread >= kFirstAdder) AddSlots<Type>(plan, share, chunk_words, ring);
  if (Meet(meeting, 1, plan.ends_at_peers)) SayWhereThisRan(meeting);
#endif
}

}  // namespace

void EnqueueBulkSums(Stream& stream, int blocks, const PeerMeeting& meeting,
                     const AddressedPlan& plan) {
  if (plan.phases.size() != 1 || plan.phases[0].size() != 1)
    throw Error("bulk copies add in one phase of one sum");
  const auto native = static_cast<cudaStream_t>(stream.native());
  const PackedMoves packed = Packed(plan, blocks, kSumTileBytes);
  const int ahead = SlotsAhead(blocks, plan.phases[0][0].destinations);
  ForSummedType(plan.element, [&]<class Type>() {
    CUDA_CHECK(cudaFuncSetAttribute(SumInBulk<Type>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                    sizeof(SumRing)));
    SumInBulk<Type><<<blocks, kSumThreads, sizeof(SumRing), native>>>(packed, meeting, ahead);
  });
  CUDA_CHECK(cudaGetLastError());
}

}  // namespace overlapbench
