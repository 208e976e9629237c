// Peer moves: the kernels that execute a rank's part of a plan (comm/peer_plan.h) with a given
// number of SMs.
//
// A plan of several phases is carried out in pieces (PlanSteps in comm/peer_plan.h). Each block
// processes every `blocks`-th tile of every piece, and meets the other ranks' blocks of the same
// index before each step and after the last. It depends on no other block of its own kernel, so the
// blocks may run one after the other. While one waits in a meeting, others use the link. A block
// fills an SM: `blocks` is the number of SMs.
//
// When data moves through registers, a block has 1,024 threads of 64 registers. A thread keeps 64
// bytes of each of two moves in flight. By Little's law, 64 KiB per NVLink latency of about 1.4 µs
// give the 48 GB/s that an SM reaches.
//
// With bulk copies (PTX ISA, cp.async.bulk), one thread loads 16 KiB at a time into a ring in
// shared memory, and another stores them from there. Half of the block adds in between.
//
// A wait in a meeting ends after the timeout, or when `stop` is set. The block then sets `failed`
// and no longer accesses other ranks' memory.
#pragma once

#include <cstdint>
#include <vector>

#include "comm/peer_plan.h"
#include "device/device.h"
#include "workload/element.h"

namespace overlapbench {

constexpr int kMostPeers = 8;
constexpr int kMostPeerBlocks = 256;
constexpr std::size_t kPeerWordBytes = kPlanWordBytes;  // the unit that the kernels move

// A Move with addresses instead of places.
struct AddressedMove {
  const void* from[kMostPeers];
  void* to[kMostPeers];
  int sources;
  int destinations;
  unsigned within;  // one bit per destination: whether it is on this GPU
  unsigned remote;  // one bit per source: whether it is on another one
  unsigned mail;    // one bit per source: whether it is mail (comm/cuda/peer_mail.h)
  long words;       // of 16 bytes
};

struct AddressedPlan {
  std::vector<std::vector<AddressedMove>> phases;
  // Of the longest move on any rank, of 16 bytes. All addresses are multiples of 16.
  long words = 0;
  Element element = Element::kFloat32;
  // Whether the last phase writes to other ranks' memory, which the last meeting must then publish.
  bool ends_at_peers = true;

  [[nodiscard]] std::size_t bytes() const { return words * kPeerWordBytes; }
};

// The words by which blocks meet. Each rank's `flags` hold kMostPeers words per block.
//
// The host counts the meetings of kernels that it launches: reading a count from the GPU's memory
// delays a kernel. A graph repeats its kernels without the host, so they count for themselves, each
// block for itself. Blocks of the same index on all ranks count alike.
struct PeerMeeting {
  std::uint32_t* flags[kMostPeers];  // by rank, including this one
  const std::uint32_t* stop;         // on the host; nonzero: give up
  std::uint32_t* failed;             // on the host; set when a meeting was given up
  std::uint32_t* multiprocessors;    // one word per block: the SM that it ran on
  std::uint64_t timeout_ns;
  // The number of the first meeting; later ones count up from it. Numbers are unique within a
  // communicator and one kind of counting, so that flags need not be cleared.
  std::uint32_t number;
  // In a graph: one word per block, the number of its last meeting; otherwise nullptr.
  std::uint32_t* counts;
  int rank;
  int ranks;
};

constexpr std::size_t kPeerFlagBytes = sizeof(std::uint32_t) * kMostPeers * kMostPeerBlocks;

void EnqueuePeerMoves(Stream& stream, int blocks, const PeerMeeting& meeting,
                      const AddressedPlan& plan);
// The same within this rank, without meetings. The plan has one phase.
void EnqueueOwnMoves(Stream& stream, int blocks, const AddressedPlan& plan);
// By bulk copies, for GPUs of compute capability 9.0 and later.
void EnqueueBulkMoves(Stream& stream, int blocks, const PeerMeeting& meeting,
                      const AddressedPlan& plan);

// A plan in its kernels' form.
struct PackedMoves {
  static constexpr int kMostPhases = 2;
  static constexpr int kMostMoves = 2 * kMostPeers;

  AddressedMove moves[kMostMoves];
  int phase_ends[kMostPhases];
  PlanSteps steps;
  long piece_words;  // of the longest move; its last piece may be shorter
  long tile_words;
  // With bulk copies: how many moves, which come first, copy within this GPU.
  int own_moves;
  bool ends_at_peers;

  // Of a step: its moves, from the first up to `end_move`, and the piece of one of them.
  [[nodiscard]] constexpr int first_move(int step) const {
    const int phase = steps.first_phase(step);
    return phase == 0 ? 0 : phase_ends[phase - 1];
  }
  [[nodiscard]] constexpr int end_move(int step) const {
    return phase_ends[steps.end_phase(step) - 1];
  }
  [[nodiscard]] constexpr int PieceOf(int move, int step) const {
    return step - (move < phase_ends[0] ? 0 : 1);
  }
};
static_assert(PackedMoves::kMostPhases == 2, "PieceOf tells two phases apart");

// How many steps the kernels take for a plan; each begins with a meeting.
PlanSteps StepsOf(const AddressedPlan& plan, int blocks);
// Tiles are at most `tile_bytes`, or smaller so that every block gets one. Throws Error if the plan
// has more moves than fit.
PackedMoves Packed(const AddressedPlan& plan, int blocks, std::size_t tile_bytes);

}  // namespace overlapbench
