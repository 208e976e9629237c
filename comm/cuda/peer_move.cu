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

// Moves kWords words of each move, from `first` on. With one word, `first` may lie beyond a shorter
// move's end.
template <class Type, int kSources, int kWords>
__device__ void DoMoves(const AddressedMove* moves, int count, long first) {
  const auto has = [=](int i) { return i < count && (kWords > 1 || first < moves[i].words); };
#pragma unroll 1
  for (int i = 0; i < count; ++i) {
    if (!has(i)) continue;
    if (moves[i].sources > 1) {
      constexpr int kAtATime = std::max(1, std::min(kWords, 8 / kSources));
#pragma unroll 1
      for (int done = 0; done < kWords; done += kAtATime)
        Add<Type, kSources, kAtATime>(moves[i], first + done * kMoveThreads);
    } else if (has(i + 1) && moves[i + 1].sources == 1) {
      Copy<kWords>(moves[i], moves[i + 1], first);
      ++i;
    } else {
      Copy<kWords>(moves[i], first);
    }
  }
}

// Moves the block's tiles of a piece of a phase: full tiles with kInFlight words per thread at a
// time, the last with one.
template <class Type, int kSources>
__device__ void DoPhase(const PackedMoves& plan, int phase, int piece) {
  const int first_move = phase == 0 ? 0 : plan.phase_ends[phase - 1];
  const AddressedMove* const moves = plan.moves + first_move;
  const int count = plan.phase_ends[phase] - first_move;
  long least = plan.piece_words * plan.steps.pieces;
  long most = 0;
  for (int i = 0; i < count; ++i) {
    least = min(least, moves[i].words);
    most = max(most, moves[i].words);
  }
  const long first_word = piece * plan.piece_words;
  const long last_word = min(first_word + plan.piece_words, most);
  for (long begin = first_word + blockIdx.x * plan.tile_words; begin < last_word;
       begin += gridDim.x * plan.tile_words) {
    const long end = min(begin + plan.tile_words, last_word);
    long first = begin + threadIdx.x;
    if (end - begin == kInFlight * kMoveThreads && end <= least) {
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
#pragma unroll 1
  for (int step = 0; step < plan.steps.count(); ++step) {
    if (!Meet(meeting, step, step > 0)) return;
#pragma unroll 1
    for (int phase = plan.steps.first_phase(step); phase < plan.steps.end_phase(step); ++phase)
      DoPhase<Type, kSources>(plan, phase, step - phase);
  }
  if (Meet(meeting, plan.steps.count(), plan.ends_at_peers))
    EndMeetings(meeting, plan.steps.count() + 1);
}

// Executes a plan's only phase.
template <class Type, int kSources>
__global__ __launch_bounds__(kMoveThreads,
                             1) void MoveAlone(const __grid_constant__ PackedMoves plan) {
  DoPhase<Type, kSources>(plan, 0, 0);
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

// A block that carries out a piece in less time than a few meetings would spend most of its time
// waiting. Every byte of a move that has several phases crosses the link, at 24 GB/s for each of 16
// SMs: 512 KiB take 22 us, a meeting 3.
PlanSteps StepsOf(const AddressedPlan& plan, int blocks) {
  constexpr std::size_t kLeastPieceBytes = 512UL << 10;  // of a block
  constexpr std::size_t kMostPieces = 64;
  const int phases = static_cast<int>(plan.phases.size());
  if (phases == 1) return {phases, 1};
  return {phases, static_cast<int>(std::clamp<std::size_t>(
                      plan.bytes() / (blocks * kLeastPieceBytes), 1, kMostPieces))};
}

PackedMoves Packed(const AddressedPlan& plan, int blocks, std::size_t tile_bytes) {
  constexpr long kLeastTileWords = 32;  // one warp's
  PackedMoves packed{};
  packed.steps = StepsOf(plan, blocks);
  const auto words = static_cast<long>(plan.bytes() / sizeof(uint4));
  packed.piece_words = (words + packed.steps.pieces - 1) / packed.steps.pieces;
  packed.tile_words = std::clamp((packed.piece_words + blocks - 1) / blocks, kLeastTileWords,
                                 static_cast<long>(tile_bytes / sizeof(uint4)));
  packed.ends_at_peers = plan.ends_at_peers;
  int phases = 0;
  int moves = 0;
  for (const auto& phase : plan.phases) {
    if (phases == PackedMoves::kMostPhases ||
        moves + static_cast<int>(phase.size()) > PackedMoves::kMostMoves)
      throw Error("a plan has more moves than the kernel takes");
    for (const AddressedMove& move : phase) packed.moves[moves++] = move;
    packed.phase_ends[phases++] = moves;
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
