#include <cuda_runtime.h>

#include <algorithm>

#include "comm/cuda/peer_meeting.cuh"
#include "comm/cuda/peer_sum.cuh"
#include "device/cuda/cuda_check.h"

namespace overlapbench {
namespace {

// A build for earlier GPUs leaves this file's device code unused.
#pragma nv_diag_suppress 177
// One thread moves, half of them add, and all keep other kernels' blocks off the SM.
constexpr int kBulkThreads = 1024;
constexpr int kAdders = 512;
constexpr int kFirstAdder = kBulkThreads - kAdders;
constexpr int kBulkWarp = 32;
constexpr int kStageBytes = 16 * 1024;
constexpr int kStages = 12;
// Stages that are being filled. Those being emptied are few: what SMs send faster than the link
// takes it slows all of them down.
constexpr int kAhead = 9;
constexpr int kStageWords = kStageBytes / static_cast<int>(sizeof(uint4));
constexpr long kTileStages = 4;
// For sums the same memory is fewer and larger slots. Each takes a chunk of every source.
constexpr int kSlots = 6;
constexpr int kSlotsAhead = 4;
constexpr int kSlotWords = kStages * kStageWords / kSlots;

struct Ring {
  uint4 words[kStages * kStageWords];
  std::uint64_t filled[kStages];  // an mbarrier for each stage
  std::uint64_t slot_filled[kSlots];
  std::uint64_t slot_added[kSlots];
  std::uint32_t steps;       // so far; its remainders name the stage and the barrier's phase
  std::uint32_t slot_steps;  // the same of slots

  __device__ uint4* Stage(std::uint32_t step) { return words + step % kStages * kStageWords; }
  __device__ uint4* Slot(std::uint32_t step) { return words + step % kSlots * kSlotWords; }
};

// ---- Instructions (PTX ISA, "Asynchronous copy" and "mbarrier")

__device__ std::uint32_t SharedAddress(const void* pointer) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(pointer));
}
__device__ void InitBarrier(std::uint64_t* barrier, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(SharedAddress(barrier)),
               "r"(arrivals)
               : "memory");
}
__device__ void Arrive(std::uint64_t* barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(SharedAddress(barrier)) : "memory");
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
__device__ void BulkStore(void* global, const void* shared, std::uint32_t bytes) {
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(global),
               "r"(SharedAddress(shared)), "r"(bytes)
               : "memory");
}
// Ends a group of stores, and waits until the memory of all groups but the last `kPending` can be
// filled again.
template <int kPending>
__device__ void CommitStores() {
  asm volatile("cp.async.bulk.commit_group;\n cp.async.bulk.wait_group.read %0;" ::"n"(kPending)
               : "memory");
}
// What this thread has written to shared memory becomes visible to bulk copies.
__device__ void FenceSharedWrites() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
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
  // The chunk at an address of the move.
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

// By one thread: loads run ahead of stores.
__device__ void CopyPhase(const PackedMoves& plan, const Share& share, Ring& ring) {
  Cursor load(plan, share, kStageWords);
  std::uint32_t loaded = ring.steps;
  const auto fill = [&] {
    if (!load.Valid(plan)) return;
    std::uint64_t* const filled = &ring.filled[loaded % kStages];
    ExpectBytes(filled, load.Bytes(plan));
    BulkLoad(ring.Stage(loaded++), load.In(share.moves[load.move].from[0]), load.Bytes(plan),
             filled);
    load.Next(plan, share);
  };
  for (int i = 0; i < kAhead; ++i) fill();
  for (Cursor store(plan, share, kStageWords); store.Valid(plan);
       store.Next(plan, share), ++ring.steps) {
    AwaitBarrier(&ring.filled[ring.steps % kStages], ring.steps / kStages % 2);
    BulkStore(store.In(share.moves[store.move].to[0]), ring.Stage(ring.steps), store.Bytes(plan));
    CommitStores<kStages - kAhead - 1>();
    fill();
  }
  AwaitStores();
}

// The sum of a slot's chunks, in place of the first. By all adders, each of its own words.
template <class Type>
__device__ void AddSlot(uint4* slot, int words, int sources, int chunk_words) {
  for (int i = static_cast<int>(threadIdx.x) - kFirstAdder; i < words; i += kAdders) {
    Sum<Type> sum(slot[i]);
    for (int source = 1; source < sources; ++source) sum.Add(slot[source * chunk_words + i]);
    slot[i] = sum.Rounded();
  }
}

// One thread loads and stores, and half of the block adds, so that neither waits for the other's
// next step. All moves of the phase have as many sources.
template <class Type>
__device__ void AddPhase(const PackedMoves& plan, const Share& share, Ring& ring) {
  const int thread = static_cast<int>(threadIdx.x);
  const int sources = share.moves[0].sources;
  const int chunk_words = kSlotWords / sources / kBulkWarp * kBulkWarp;
  std::uint32_t step = ring.slot_steps;
  if (thread >= kFirstAdder) {
    for (Cursor sum(plan, share, chunk_words); sum.Valid(plan); sum.Next(plan, share), ++step) {
      AwaitBarrier(&ring.slot_filled[step % kSlots], step / kSlots % 2);
      AddSlot<Type>(ring.Slot(step), sum.Words(plan), sources, chunk_words);
      FenceSharedWrites();
      __syncwarp();
      if (thread % kBulkWarp == 0) Arrive(&ring.slot_added[step % kSlots]);
    }
    return;
  }
  if (thread != 0) return;
  Cursor load(plan, share, chunk_words);
  std::uint32_t loaded = step;
  const auto fill = [&] {
    if (!load.Valid(plan)) return;
    std::uint64_t* const filled = &ring.slot_filled[loaded % kSlots];
    ExpectBytes(filled, sources * load.Bytes(plan));
    for (int source = 0; source < sources; ++source)
      BulkLoad(ring.Slot(loaded) + source * chunk_words,
               load.In(share.moves[load.move].from[source]), load.Bytes(plan), filled);
    ++loaded;
    load.Next(plan, share);
  };
  for (int i = 0; i < kSlotsAhead; ++i) fill();
  for (Cursor store(plan, share, chunk_words); store.Valid(plan); store.Next(plan, share), ++step) {
    AwaitBarrier(&ring.slot_added[step % kSlots], step / kSlots % 2);
    const AddressedMove& move = share.moves[store.move];
    for (int to = 0; to < move.destinations; ++to)
      BulkStore(store.In(move.to[to]), ring.Slot(step), store.Bytes(plan));
    CommitStores<kSlots - kSlotsAhead - 1>();
    fill();
  }
  ring.slot_steps = step;
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

template <class Type>
__global__ __launch_bounds__(kBulkThreads,
                             1) void MoveInBulk(const __grid_constant__ PackedMoves plan,
                                                const __grid_constant__ PeerMeeting meeting) {
#if __CUDA_ARCH__ >= 900  // earlier ones have no bulk copies
  extern __shared__ __align__(128) unsigned char shared[];
  Ring& ring = *reinterpret_cast<Ring*>(shared);
  if (threadIdx.x == 0) {
    for (auto& barrier : ring.filled) InitBarrier(&barrier, 1);
    for (auto& barrier : ring.slot_filled) InitBarrier(&barrier, 1);
    for (auto& barrier : ring.slot_added) InitBarrier(&barrier, kAdders / kBulkWarp);
    ring.steps = ring.slot_steps = 0;
    FenceSharedWrites();
  }
  std::uint32_t number = meeting.meetings[blockIdx.x];
  int first = 0;
  for (int phase = 0; phase < plan.phases; ++phase) {
    if (!Meet(meeting, ++number, phase > 0)) return;
    const Share share = ShareOf(plan, plan.moves + first, plan.phase_ends[phase] - first);
    if (share.count > 0 && share.moves[0].sources > 1)
      AddPhase<Type>(plan, share, ring);
    else if (threadIdx.x == 0)
      CopyPhase(plan, share, ring);
    first = plan.phase_ends[phase];
  }
  if (Meet(meeting, ++number, plan.ends_at_peers)) Leave(meeting, number);
#endif
}

template <class Type>
void LaunchInBulk(cudaStream_t stream, int blocks, const PackedMoves& plan,
                  const PeerMeeting& meeting) {
  CUDA_CHECK(cudaFuncSetAttribute(MoveInBulk<Type>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                  sizeof(Ring)));
  MoveInBulk<Type><<<blocks, kBulkThreads, sizeof(Ring), stream>>>(plan, meeting);
  CUDA_CHECK(cudaGetLastError());
}

// Copies go to each destination alone, those within this GPU first: two stores of a stage would
// empty it at the slower one's pace. Sums go to all of theirs at once.
AddressedPlan WithOneDestinationEach(const AddressedPlan& plan) {
  AddressedPlan split = plan;
  for (auto& phase : split.phases) {
    std::vector<AddressedMove> moves;
    for (const AddressedMove& move : phase) {
      if (move.sources > 1) {
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
    std::ranges::stable_partition(moves, [](const AddressedMove& one) { return one.within != 0; });
    phase = std::move(moves);
  }
  return split;
}

}  // namespace

void EnqueueBulkMoves(Stream& stream, int blocks, const PeerMeeting& meeting,
                      const AddressedPlan& plan) {
  const auto native = static_cast<cudaStream_t>(stream.native());
  const AddressedPlan split = WithOneDestinationEach(plan);
  PackedMoves packed = Packed(split, blocks, kTileStages * kStageBytes);
  const auto adds = [](const auto& phase) { return !phase.empty() && phase[0].sources > 1; };
  if (std::ranges::any_of(split.phases, adds)) {
    return ForSummedType(
        plan.element, [&]<class Type>() { LaunchInBulk<Type>(native, blocks, packed, meeting); });
  }
  // With more phases, each block must do the same share of all of them.
  if (split.phases.size() == 1) {
    packed.own_moves = static_cast<int>(std::ranges::count_if(
        split.phases[0], [](const AddressedMove& move) { return move.within != 0; }));
  }
  LaunchInBulk<std::int32_t>(native, blocks, packed, meeting);
}

}  // namespace overlapbench
