#include <algorithm>

#include "comm/cuda/peer_meeting.cuh"
#include "comm/cuda/peer_sum.cuh"
#include "device/cuda/cuda_check.h"

namespace overlapbench {
namespace {

constexpr int kMoveThreads = 1024;
constexpr int kInFlight = 4;

// ---- Moving

// Data passes through once, so it is kept out of L1.
__device__ uint4 Load(const uint4* from) {
  uint4 value;
  asm volatile("ld.global.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(value.x), "=r"(value.y), "=r"(value.z), "=r"(value.w)
               : "l"(from)
               : "memory");
  return value;
}

// A thread's words: `first`, and every kMoveThreads-th after it. All are loaded before any is
// stored.
template <int kWords>
struct InFlight {
  uint4 words[kWords];

  __device__ void LoadFrom(const void* from, long first) {
    const uint4* source = static_cast<const uint4*>(from) + first;
#pragma unroll
    for (int i = 0; i < kWords; ++i) words[i] = Load(source + i * kMoveThreads);
  }
  __device__ void StoreTo(const AddressedMove& move, long first) const {
#pragma unroll 1
    for (int to = 0; to < move.destinations; ++to) {
      uint4* destination = static_cast<uint4*>(move.to[to]) + first;
#pragma unroll
      for (int i = 0; i < kWords; ++i) destination[i * kMoveThreads] = words[i];
    }
  }
};

template <int kWords>
__device__ void Copy(const AddressedMove& one, const AddressedMove& other, long first) {
  InFlight<kWords> of_one;
  InFlight<kWords> of_other;
  of_one.LoadFrom(one.from[0], first);
  of_other.LoadFrom(other.from[0], first);
  of_one.StoreTo(one, first);
  of_other.StoreTo(other, first);
}

template <int kWords>
__device__ void Copy(const AddressedMove& move, long first) {
  InFlight<kWords> words;
  words.LoadFrom(move.from[0], first);
  words.StoreTo(move, first);
}

// kSources: at least the move's.
template <class Type, int kSources, int kWords>
__device__ void Add(const AddressedMove& move, long first) {
  InFlight<kWords> of[kSources];
#pragma unroll
  for (int source = 0; source < kSources; ++source)
    if (source < move.sources) of[source].LoadFrom(move.from[source], first);
#pragma unroll
  for (int i = 0; i < kWords; ++i) {
    Sum<Type> sum(of[0].words[i]);
#pragma unroll
    for (int source = 1; source < kSources; ++source)
      if (source < move.sources) sum.Add(of[source].words[i]);
    of[0].words[i] = sum.Rounded();
  }
  of[0].StoreTo(move, first);
}

// Moves kWords words of each of a phase's moves.
template <class Type, int kSources, int kWords>
__device__ void DoMoves(const AddressedMove* moves, int count, long first) {
#pragma unroll 1
  for (int i = 0; i < count; ++i) {
    if (moves[i].sources > 1) {
      constexpr int kAtATime = std::max(1, std::min(kWords, 8 / kSources));
#pragma unroll 1
      for (int done = 0; done < kWords; done += kAtATime)
        Add<Type, kSources, kAtATime>(moves[i], first + done * kMoveThreads);
    } else if (i + 1 < count && moves[i + 1].sources == 1) {
      Copy<kWords>(moves[i], moves[i + 1], first);
      ++i;
    } else {
      Copy<kWords>(moves[i], first);
    }
  }
}

// Moves the block's tiles: full tiles with kInFlight words per thread at a time, the last with one.
template <class Type, int kSources>
__device__ void DoPhase(const AddressedMove* moves, int count, const PackedMoves& plan) {
  for (long begin = blockIdx.x * plan.tile_words; begin < plan.words;
       begin += gridDim.x * plan.tile_words) {
    const long end = min(begin + plan.tile_words, plan.words);
    long first = begin + threadIdx.x;
    if (end - begin == kInFlight * kMoveThreads) {
      DoMoves<Type, kSources, kInFlight>(moves, count, first);
    } else {
#pragma unroll 1
      for (; first < end; first += kMoveThreads) DoMoves<Type, kSources, 1>(moves, count, first);
    }
  }
}

template <class Type, int kSources>
__global__ __launch_bounds__(kMoveThreads,
                             1) void MovePeers(const __grid_constant__ PackedMoves plan,
                                               const __grid_constant__ PeerMeeting meeting) {
  int first = 0;
#pragma unroll 1
  for (int phase = 0; phase < plan.phases; ++phase) {
    if (!Meet(meeting, phase, phase > 0)) return;
    DoPhase<Type, kSources>(plan.moves + first, plan.phase_ends[phase] - first, plan);
    first = plan.phase_ends[phase];
  }
  if (Meet(meeting, plan.phases, plan.ends_at_peers)) SayWhereThisRan(meeting);
}

// Executes a plan's only phase.
template <class Type, int kSources>
__global__ __launch_bounds__(kMoveThreads,
                             1) void MoveAlone(const __grid_constant__ PackedMoves plan) {
  DoPhase<Type, kSources>(plan.moves, plan.phase_ends[0], plan);
}

// ---- Launching

// `meeting`: nullptr if this rank moves alone.
void LaunchMoves(Stream& stream, int blocks, const PeerMeeting* meeting,
                 const AddressedPlan& plan) {
  const auto native = static_cast<cudaStream_t>(stream.native());
  const PackedMoves packed = Packed(plan, blocks, kMoveThreads * kInFlight * sizeof(uint4));
  int most_sources = 1;
  for (const auto& phase : plan.phases)
    for (const AddressedMove& move : phase) most_sources = std::max(most_sources, move.sources);
  ForSummedType(plan.element, [&]<class Type>() {
    ForSources(most_sources, [&]<int kSources>() {
      if (meeting == nullptr)
        MoveAlone<Type, kSources><<<blocks, kMoveThreads, 0, native>>>(packed);
      else
        MovePeers<Type, kSources><<<blocks, kMoveThreads, 0, native>>>(packed, *meeting);
    });
  });
  CUDA_CHECK(cudaGetLastError());
}

}  // namespace

PackedMoves Packed(const AddressedPlan& plan, int blocks, std::size_t tile_bytes) {
  constexpr long kLeastTileWords = 32;  // one warp's
  PackedMoves packed{};
  packed.words = static_cast<long>(plan.bytes() / sizeof(uint4));
  packed.tile_words = std::clamp((packed.words + blocks - 1) / blocks, kLeastTileWords,
                                 static_cast<long>(tile_bytes / sizeof(uint4)));
  packed.ends_at_peers = plan.ends_at_peers;
  int moves = 0;
  for (const auto& phase : plan.phases) {
    if (packed.phases == PackedMoves::kMostPhases ||
        moves + static_cast<int>(phase.size()) > PackedMoves::kMostMoves)
      throw Error("a plan has more moves than the kernel takes");
    for (const AddressedMove& move : phase) packed.moves[moves++] = move;
    packed.phase_ends[packed.phases++] = moves;
  }
  return packed;
}

void EnqueuePeerMoves(Stream& stream, int blocks, const PeerMeeting& meeting,
                      const AddressedPlan& plan) {
  LaunchMoves(stream, blocks, &meeting, plan);
}

void EnqueueOwnMoves(Stream& stream, int blocks, const AddressedPlan& plan) {
  if (plan.phases.size() != 1) throw Error("a rank alone moves in one phase");
  LaunchMoves(stream, blocks, nullptr, plan);
}

}  // namespace overlapbench
