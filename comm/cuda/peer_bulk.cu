#include <cuda_runtime.h>

#include <algorithm>

#include "comm/cuda/peer_meeting.cuh"
#include "comm/cuda/peer_sum.cuh"
#include "device/cuda/cuda_check.h"

namespace overlapbench {
namespace {

// A build for earlier GPUs leaves this file's device code unused.
#pragma nv_diag_suppress 177
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
constexpr bool kHasBulkCopies = false;
#else
constexpr bool kHasBulkCopies = true;
#endif
constexpr int kThreads = 1024;  // one copies, all add
constexpr int kTileStages = 4;

// A ring of stages in shared memory: `kAhead` are being filled, the others emptied.
template <int kStages, int kStageKiB, int kAhead>
struct Ring {
  static constexpr int kCount = kStages;
  static constexpr int kFilling = kAhead;
  static constexpr int kWords = kStageKiB * 1024 / static_cast<int>(sizeof(uint4));

  uint4 (*stages)[kWords];
  std::uint64_t* filled;  // an mbarrier for each stage
  std::uint32_t steps;    // so far; its remainders name the stage and the barrier's phase
};
// Of copies, few stages are being emptied: what SMs send faster than the link takes it slows all of
// them down. A step of a sum is large, because all threads wait for each other in each.
using CopyRing = Ring<12, 16, 9>;
using SumRing = Ring<3, 64, 2>;
constexpr int kRingBytes = 192 * 1024;

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
__device__ void BulkStore(void* global, const void* shared, std::uint32_t bytes) {
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(global),
               "r"(SharedAddress(shared)), "r"(bytes)
               : "memory");
}
// Waits until the stages of all but the last kPending groups of stores can be filled again.
template <int kPending>
__device__ void EndGroupOfStores() {
  asm volatile("cp.async.bulk.commit_group;\n cp.async.bulk.wait_group.read %0;" ::"n"(kPending)
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
  [[nodiscard]] __device__ int Words(const PackedMoves& plan, int most) const {
    return min(most, TileWords(plan) - offset);
  }
  __device__ void Next(const PackedMoves& plan, const Share& share, int most) {
    offset += most;
    if (offset < TileWords(plan)) return;
    offset = 0;
    if (++move < share.count) return;
    move = 0;
    tile += share.blocks * plan.tile_words;
  }
};

// Adds what the sources have left in a stage, `chunk_words` apart, into the first. By all threads.
template <class Type>
__device__ void AddSources(uint4* stage, int sources, int chunk_words, int words) {
  for (int word = static_cast<int>(threadIdx.x); word < words; word += kThreads) {
    Sum<Type> sum(stage[word]);
    for (int source = 1; source < sources; ++source) sum.Add(stage[source * chunk_words + word]);
    stage[word] = sum.Rounded();
  }
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncthreads();
}

// Loads run ahead of stores. All bulk copies are one thread's; without sums, the others do nothing.
template <class Type, class AnyRing>
__device__ void DoPhase(const PackedMoves& plan, const Share& share, int most_sources,
                        AnyRing& ring) {
  const bool leads = threadIdx.x == 0;
  const bool adds = most_sources > 1;
  const int chunk_words = AnyRing::kWords / most_sources;
  Cursor load(plan, share);
  std::uint32_t loaded = ring.steps;
  const auto fill = [&] {
    if (!load.Valid(plan)) return;
    const AddressedMove& move = share.moves[load.move];
    const int stage = static_cast<int>(loaded++ % AnyRing::kCount);
    const std::uint32_t bytes = load.Words(plan, chunk_words) * sizeof(uint4);
    ExpectBytes(&ring.filled[stage], bytes * move.sources);
    for (int i = 0; i < move.sources; ++i) {
      BulkLoad(&ring.stages[stage][i * chunk_words],
               static_cast<const uint4*>(move.from[i]) + load.tile + load.offset, bytes,
               &ring.filled[stage]);
    }
    load.Next(plan, share, chunk_words);
  };
  if (leads)
    for (int i = 0; i < AnyRing::kFilling; ++i) fill();
  for (Cursor store(plan, share); store.Valid(plan);
       store.Next(plan, share, chunk_words), ++ring.steps) {
    if (!leads && !adds) continue;
    const AddressedMove& move = share.moves[store.move];
    const int stage = static_cast<int>(ring.steps % AnyRing::kCount);
    const int words = store.Words(plan, chunk_words);
    AwaitBarrier(&ring.filled[stage], ring.steps / AnyRing::kCount % 2);
    if (adds) AddSources<Type>(ring.stages[stage], move.sources, chunk_words, words);
    if (!leads) continue;
    for (int i = 0; i < move.destinations; ++i) {
      BulkStore(static_cast<uint4*>(move.to[i]) + store.tile + store.offset, ring.stages[stage],
                words * sizeof(uint4));
    }
    EndGroupOfStores<AnyRing::kCount - AnyRing::kFilling - 1>();
    fill();
  }
  if (leads) AwaitStores();
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
__device__ void MoveShare(const PackedMoves& plan, const PeerMeeting& meeting) {
  extern __shared__ __align__(128) unsigned char shared[];
  __shared__ std::uint64_t barriers[CopyRing::kCount + SumRing::kCount];
  CopyRing copies{reinterpret_cast<uint4(*)[CopyRing::kWords]>(shared), barriers, 0};
  SumRing sums{reinterpret_cast<uint4(*)[SumRing::kWords]>(shared), barriers + CopyRing::kCount, 0};
  if (threadIdx.x == 0) {
    for (auto& barrier : barriers) InitBarrier(&barrier);
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  }
  std::uint32_t number = meeting.meetings[blockIdx.x];
  int first = 0;
  for (int phase = 0; phase < plan.phases; ++phase) {
    if (!Meet(meeting, ++number, phase > 0)) return;
    const Share share = ShareOf(plan, plan.moves + first, plan.phase_ends[phase] - first);
    const int sources = share.count == 0 ? 1 : share.moves[0].sources;
    if (sources == 1)
      DoPhase<Type>(plan, share, 1, copies);
    else
      DoPhase<Type>(plan, share, sources <= 2 ? 2 : sources <= 4 ? 4 : 8, sums);
    first = plan.phase_ends[phase];
  }
  if (Meet(meeting, ++number, plan.ends_at_peers)) Leave(meeting, number);
}

template <class Type>
__global__ __launch_bounds__(kThreads,
                             1) void MoveInBulk(const __grid_constant__ PackedMoves plan,
                                                const __grid_constant__ PeerMeeting meeting) {
  if constexpr (kHasBulkCopies) MoveShare<Type>(plan, meeting);
}

// A copy to each destination alone, those within this GPU first. Two stores of a stage would empty
// it at the slower one's pace.
AddressedPlan WithOneDestinationEach(const AddressedPlan& plan) {
  AddressedPlan split = plan;
  for (auto& phase : split.phases) {
    std::vector<AddressedMove> moves;
    for (const AddressedMove& move : phase) {
      for (int i = 0; i < (move.sources > 1 ? 1 : move.destinations); ++i) {
        moves.push_back(move);
        if (move.sources > 1) continue;
        moves.back().to[0] = move.to[i];
        moves.back().destinations = 1;
        moves.back().within = move.within >> i & 1U;
      }
    }
    std::ranges::stable_partition(
        moves, [](const AddressedMove& move) { return move.sources == 1 && move.within != 0; });
    phase = std::move(moves);
  }
  return split;
}

template <class Type>
void LaunchBulk(cudaStream_t stream, int blocks, const PackedMoves& plan,
                const PeerMeeting& meeting) {
  CUDA_CHECK(cudaFuncSetAttribute(MoveInBulk<Type>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                  kRingBytes));
  MoveInBulk<Type><<<blocks, kThreads, kRingBytes, stream>>>(plan, meeting);
  CUDA_CHECK(cudaGetLastError());
}

}  // namespace

void EnqueueBulkMoves(Stream& stream, int blocks, const PeerMeeting& meeting,
                      const AddressedPlan& plan) {
  const AddressedPlan split = WithOneDestinationEach(plan);
  PackedMoves packed = Packed(split, blocks, kTileStages * CopyRing::kWords * sizeof(uint4));
  // With more phases, each block must do the same share of all of them.
  if (split.phases.size() == 1) {
    packed.own_moves = static_cast<int>(std::ranges::count_if(
        split.phases[0], [](const AddressedMove& move) { return move.within != 0; }));
  }
  const auto native = static_cast<cudaStream_t>(stream.native());
  ForSummedType(plan.element,
                [&]<class Type>() { LaunchBulk<Type>(native, blocks, packed, meeting); });
}

}  // namespace overlapbench
