// Peer moves: the kernels that carry out a rank's part of a plan (comm/peer_plan.h) with a given
// number of SMs.
//
// Each block takes every `blocks`-th tile of every move, and meets the block of the same index of
// the other ranks before each phase and after the last. It needs no other block of its own kernel,
// so the blocks may run one after the other. A block fills an SM: `blocks` is the number of SMs.
//
// By registers, a block is 1,024 threads of 64 registers. A thread has 64 bytes of each of two
// moves in flight. By Little's law, 64 KiB over NVLink's latency of about 1.4 µs are the 48 GB/s
// that an SM gets through.
//
// By bulk copies (PTX ISA, cp.async.bulk), one thread moves 16 KiB at a time through a ring in
// shared memory, which loads and stores at the same time.
//
// To add, half of the block does so in shared memory, between the loads and the stores.
//
// A wait in a meeting ends after the timeout, or when `stop` is set. The block then no longer
// touches another rank's memory, and sets `failed`.
#pragma once

#include <cstdint>
#include <vector>

#include "device/device.h"
#include "workload/element.h"

namespace overlapbench {

constexpr int kMostPeers = 8;
constexpr int kMostPeerBlocks = 256;

// Addresses in place of a Move's places.
struct AddressedMove {
  const void* from[kMostPeers];
  void* to[kMostPeers];
  int sources;
  int destinations;
  unsigned within;  // a bit for each destination: whether it lies on this GPU
  unsigned mail;    // a bit for each source: whether it is mail (comm/cuda/peer_mail.h)
};

struct AddressedPlan {
  std::vector<std::vector<AddressedMove>> phases;
  // Of each move. Its bytes are a multiple of 16, and so are all addresses.
  long count = 0;
  Element element = Element::kFloat32;
  // Whether the last phase writes to other ranks' memory, which the last meeting must then publish.
  bool ends_at_peers = true;

  [[nodiscard]] std::size_t bytes() const { return count * SizeOf(element); }
};

// What blocks meet by. Each rank's `flags` hold kMostPeers words for each block.
struct PeerMeeting {
  std::uint32_t* flags[kMostPeers];  // by rank; this rank's own among them
  const std::uint32_t* stop;         // on the host; not 0: give up
  std::uint32_t* failed;             // on the host; set when a meeting was given up
  std::uint32_t* multiprocessors;    // a word for each block: the SM that it ran on
  std::uint64_t timeout_ns;
  // Of the first meeting; the next ones count on. All of a communicator's meetings have numbers of
  // their own, so that a flag need not be cleared.
  std::uint32_t number;
  int rank;
  int ranks;
};

constexpr std::size_t kPeerFlagBytes = sizeof(std::uint32_t) * kMostPeers * kMostPeerBlocks;

void EnqueuePeerMoves(Stream& stream, int blocks, const PeerMeeting& meeting,
                      const AddressedPlan& plan);
// The same within this rank: meets nobody. The plan has one phase.
void EnqueueOwnMoves(Stream& stream, int blocks, const AddressedPlan& plan);
// On GPUs of compute capability 9.0 and later. Copies alone, or a single sum.
void EnqueueBulkMoves(Stream& stream, int blocks, const PeerMeeting& meeting,
                      const AddressedPlan& plan);
void EnqueueBulkSums(Stream& stream, int blocks, const PeerMeeting& meeting,
                     const AddressedPlan& plan);

// A plan as its kernels take it.
struct PackedMoves {
  static constexpr int kMostPhases = 3;
  static constexpr int kMostMoves = 2 * kMostPeers;

  AddressedMove moves[kMostMoves];
  int phase_ends[kMostPhases];
  int phases;
  long words;       // of 16 bytes, of each move
  long tile_words;  // that a block takes at a time
  // By bulk copies: how many moves stand first because they copy within this GPU.
  int own_moves;
  bool ends_at_peers;
};
// Tiles are at most `tile_bytes`, and smaller where all blocks can have one then. Throws Error
// where a plan has more moves than fit.
PackedMoves Packed(const AddressedPlan& plan, int blocks, std::size_t tile_bytes);

}  // namespace overlapbench
