#include <cuda_runtime.h>

#include <algorithm>
#include <bit>

#include "comm/cuda/bulk_copy.cuh"
#include "comm/cuda/peer_meeting.cuh"
#include "comm/cuda/peer_sum.cuh"
#include "device/cuda/cuda_check.h"

namespace overlapbench {
namespace {

// A build for earlier GPUs leaves this file's device code unused.
#pragma nv_diag_suppress 177
// One thread loads, one stores, half of the block adds, and all keep other kernels' blocks off the
// SM.
constexpr int kBulkThreads = 1024;
constexpr int kAdders = 512;
constexpr int kFirstAdder = kBulkThreads - kAdders;
constexpr int kBulkWarp = 32;
constexpr int kLoader = 0;
constexpr int kStorer = kBulkWarp;  // in a warp of its own
// Each slot holds one chunk of every source of a move.
constexpr int kSlots = 12;
constexpr int kSlotBytes = 16 * 1024;
constexpr int kSlotWords = kSlotBytes / static_cast<int>(sizeof(uint4));
constexpr std::size_t kBulkTileBytes = 64 * 1024;
// Groups of stores in flight beside the latest: few, because SMs that send faster than the link
// accepts slow each other down.
constexpr int kPending = 2;

struct Ring {
  uint4 words[kSlots * kSlotWords];
  Barrier filled[kSlots];
  Barrier added[kSlots];
  Barrier emptied[kSlots];
};

struct BulkOptions {
  int slots;  // of the ring that are used
  bool adds;  // whether any move does
};

// A role's place in the ring: its slot, and the phase of the slot's barriers.
struct Turn {
  int slot = 0;
  std::uint32_t phase = 0;

  __device__ void Next(int slots) {
    if (++slot < slots) return;
    slot = 0;
    phase ^= 1U;
  }
};

using BulkCursor = Cursor<kSlotWords>;

// Loads a block's share of a step into the ring.
__device__ void LoadShare(const PackedMoves& plan, const Share& share, const BulkOptions& options,
                          Ring& ring, Turn& turn) {
  FenceBulkCopies();
  for (BulkCursor load(plan, share); load.Valid(); load.Next(), turn.Next(options.slots)) {
    const AddressedMove& move = load.move();
    const std::uint32_t bytes = load.bytes();
    uint4* const slot = ring.words + turn.slot * kSlotWords;
    Barrier& filled = ring.filled[turn.slot];
    ring.emptied[turn.slot].Wait(turn.phase ^ 1U);
    filled.Expect(move.sources * bytes);
    for (int source = 0; source < move.sources; ++source)
      filled.Load(slot + source * load.most_words(),
                  static_cast<const uint4*>(move.from[source]) + load.first(), bytes);
  }
}

// Stores the first chunk of each slot to all destinations.
__device__ void StoreShare(const PackedMoves& plan, const Share& share, const BulkOptions& options,
                           Ring& ring, Turn& turn) {
  Barrier* const ready = options.adds ? ring.added : ring.filled;
  Turn emptied = turn;
  int stored = 0;
  for (BulkCursor store(plan, share); store.Valid(); store.Next(), turn.Next(options.slots)) {
    const AddressedMove& move = store.move();
    ready[turn.slot].Wait(turn.phase);
    for (int to = 0; to < move.destinations; ++to)
      BulkStore(static_cast<uint4*>(move.to[to]) + store.first(),
                ring.words + turn.slot * kSlotWords, store.bytes());
    CommitStores<kPending>();
    if (stored++ < kPending) continue;
    ring.emptied[emptied.slot].Arrive();
    emptied.Next(options.slots);
  }
  AwaitStores();
  for (int left = min(stored, kPending); left > 0; --left, emptied.Next(options.slots))
    ring.emptied[emptied.slot].Arrive();
}

// Replaces each slot's first chunk by the sum of its chunks. Run by all adders, each on its own
// words. They pass the slots of copies on, too: who skipped them could mistake a barrier's phase.
template <class Type>
__device__ void AddShare(const PackedMoves& plan, const Share& share, const BulkOptions& options,
                         Ring& ring, Turn& turn) {
  const int thread = static_cast<int>(threadIdx.x);
  for (BulkCursor sum(plan, share); sum.Valid(); sum.Next(), turn.Next(options.slots)) {
    ring.filled[turn.slot].Wait(turn.phase);
    const int sources = sum.move().sources;
    const int words = sources > 1 ? sum.words() : 0;
    uint4* const slot = ring.words + turn.slot * kSlotWords;
    for (int i = thread - kFirstAdder; i < words; i += kAdders) {
      Sum<Type> added(slot[i]);
      for (int source = 1; source < sources; ++source)
        added.Add(slot[source * sum.most_words() + i]);
      slot[i] = added.Rounded();
    }
    FenceSharedWrites();
    __syncwarp();
    if (thread % kBulkWarp == 0) ring.added[turn.slot].Arrive();
  }
}

// A block's share of a step. If a plan has copies both within this GPU and to peers, each half of
// the blocks does one kind: half of the SMs saturate the link, and more would slow it down.
__device__ Share ShareOf(const PackedMoves& plan, int step) {
  const int block = static_cast<int>(blockIdx.x);
  const int blocks = static_cast<int>(gridDim.x);
  const int begin = plan.first_move(step);
  const int end = plan.end_move(step);
  const int own = plan.own_moves;
  if (own == 0 || own == end || blocks == 1) return {step, begin, end, block, blocks};
  const int half = blocks / 2;
  return block < half ? Share{step, 0, own, block, half}
                      : Share{step, own, end, block - half, blocks - half};
}

template <class Type>
__global__ __launch_bounds__(kBulkThreads,
                             1) void MoveInBulk(const __grid_constant__ PackedMoves plan,
                                                const __grid_constant__ PeerMeeting meeting,
                                                const __grid_constant__ BulkOptions options) {
#if __CUDA_ARCH__ >= 900  // earlier GPUs have no bulk copies
  extern __shared__ __align__(128) unsigned char shared[];
  Ring& ring = *reinterpret_cast<Ring*>(shared);
  const int thread = static_cast<int>(threadIdx.x);
  if (thread == 0) {
    for (Barrier& barrier : ring.filled) barrier.Initialize(1);
    for (Barrier& barrier : ring.added) barrier.Initialize(kAdders / kBulkWarp);
    for (Barrier& barrier : ring.emptied) barrier.Initialize(1);
    FenceSharedWrites();
  }
  Turn turn;
#pragma unroll 1
  for (int step = 0; step < plan.steps.count(); ++step) {
    if (!Meet(meeting, step, step > 0)) return;
    const Share share = ShareOf(plan, step);
    if (thread == kLoader) LoadShare(plan, share, options, ring, turn);
    if (thread == kStorer) StoreShare(plan, share, options, ring, turn);
    if (options.adds && thread >= kFirstAdder) AddShare<Type>(plan, share, options, ring, turn);
  }
  if (Meet(meeting, plan.steps.count(), plan.ends_at_peers))
    EndMeetings(meeting, plan.steps.count() + 1);
#endif
}

// ---- Launching

// Splits copies from this GPU by destination, those within this GPU first: with two stores, a slot
// would be emptied at the slower one's rate.
AddressedPlan WithOneDestinationEach(const AddressedPlan& plan) {
  AddressedPlan split = plan;
  for (auto& phase : split.phases) {
    std::vector<AddressedMove> moves;
    for (const AddressedMove& move : phase) {
      if (move.sources > 1 || move.remote != 0) {
        moves.push_back(move);
        continue;
      }
      for (int i = 0; i < move.destinations; ++i) {
        AddressedMove& one = moves.emplace_back(move);
        one.to[0] = move.to[i];
        one.destinations = 1;
        one.within = move.within >> i & 1U;
      }
    }
    phase = std::move(moves);
  }
  return split;
}

bool IsWithin(const AddressedMove& move) {
  return move.destinations == 1 && move.within != 0 && move.remote == 0;
}

// If blocks both read from peers and write to them, their reads share the link with the peers'
// writes. So many bytes saturate it, and more would delay the writes: sums of two ranks are fastest
// with 9 blocks that fill 8 slots each, half of them from the peer, 10 that fill 7, or 12
// that fill 6.
BulkOptions OptionsFor(const AddressedPlan& plan, int blocks) {
  constexpr int kReadBytes = 72 * kSlotBytes / 2;
  BulkOptions options{kSlots, false};
  for (const auto& phase : plan.phases) {
    for (const AddressedMove& move : phase) {
      options.adds |= move.sources > 1;
      const int remote = std::popcount(move.remote);
      const bool is_written_to_peers = std::popcount(move.within) < move.destinations;
      if (remote == 0 || !is_written_to_peers) continue;
      const int ahead = std::max(kReadBytes * move.sources / (blocks * kSlotBytes * remote), 1);
      options.slots = std::min(options.slots, ahead + kPending + 1);
    }
  }
  return options;
}

template <class Type>
void LaunchBulkMoves(Stream& stream, int blocks, const PeerMeeting& meeting,
                     const PackedMoves& packed, const BulkOptions& options) {
  const auto kernel = MoveInBulk<Type>;
  CUDA_CHECK(
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, sizeof(Ring)));
  const auto native = static_cast<cudaStream_t>(stream.native());
  kernel<<<blocks, kBulkThreads, sizeof(Ring), native>>>(packed, meeting, options);
  CUDA_CHECK(cudaGetLastError());
}

}  // namespace

void EnqueueBulkMoves(Stream& stream, int blocks, const PeerMeeting& meeting,
                      const AddressedPlan& plan) {
  AddressedPlan split = WithOneDestinationEach(plan);
  long own_moves = 0;
  // With more phases, each block must do the same share of all of them.
  if (split.phases.size() == 1) {
    std::ranges::stable_partition(split.phases[0], IsWithin);
    own_moves = std::ranges::count_if(split.phases[0], IsWithin);
  }
  PackedMoves packed = Packed(split, blocks, kBulkTileBytes);
  packed.own_moves = static_cast<int>(own_moves);
  const BulkOptions options = OptionsFor(split, blocks);
  if (!options.adds) return LaunchBulkMoves<std::int32_t>(stream, blocks, meeting, packed, options);
  ForSummedType(plan.element, [&]<class Type>() {
    LaunchBulkMoves<Type>(stream, blocks, meeting, packed, options);
  });
}

}  // namespace overlapbench
