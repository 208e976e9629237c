// Peer plan: which rank moves what between the ranks' buffers in a collective of our own.
//
// On one node with peer access, every GPU can read and write the memory of every other one. A
// collective is then a list of moves for each rank. A move adds up the elements at its sources and
// writes the sum to all its destinations; with one source it is a copy. Moves are grouped into
// phases. Before a phase, and after the last one, the ranks meet (but see kMail): a rank has
// arrived when all its earlier work is done. What a phase reads of another rank, an earlier phase
// has written.
//
// The n-th element of a buffer is Place{rank, buffer, n}. All moves of a plan have the same number
// of elements, so that a share of a move (every k-th tile, say) depends on the same share of the
// moves before it alone: those who execute the same share need only wait for each other.
//
// Who reads and who writes over the link is the plan's `Direction`. Reads (kLoad) take the data
// from the peers. Writes (kStore) push it to them. Reductions that push, and those by copy engine,
// which cannot add, go through a scratch buffer on the rank that adds. kBoth reads, adds, and
// writes in one pass where the operation has both halves (all-reduce, broadcast).
//
// kMail needs no meetings, because each word that a rank sends tells when it has arrived. A plan
// has two phases. First a rank copies from its own send buffer to the others' mail. Then it copies
// or adds, from its own mail and its own send buffer to its own receive buffer. Mail has a slot for
// each rank that sends, as large as a move: element n of what rank r sent is r * MoveCount + n. All
// ranks add in the same order, so all have the same bits. As each rank sends all that the others
// need, this is for what is short.
//
// Source of the algorithms: two-shot all-reduce as reduce-scatter and all-gather (R. Rabenseifner,
// Optimization of collective reduction operations, 2004); broadcast as scatter and all-gather (R.
// Thakur et al., Optimization of collective communication operations in MPICH, 2005).
#pragma once

#include <cstdint>
#include <vector>

#include "comm/communicator.h"

namespace overlapbench {

enum class Direction : std::uint8_t { kLoad, kStore, kBoth, kMail };

enum class PeerBuffer : std::uint8_t { kSend, kReceive, kScratch, kMail };

struct Place {
  int rank = 0;
  PeerBuffer buffer = PeerBuffer::kSend;
  long first = 0;  // element
  auto operator<=>(const Place&) const = default;
};

struct Move {
  std::vector<Place> from;
  std::vector<Place> to;
  long count = 0;  // elements
};

using MovePhase = std::vector<Move>;

struct PeerProblem {
  Operation operation = Operation::kAllGather;
  int ranks = 1;
  // Elements of one rank's segment; of the whole for the ring, whose segment is all there is.
  long segment = 0;
  // Send and receive buffer are the same. Where one is a segment of the other, all places name the
  // larger one.
  bool in_place = false;
  int root = 0;
  int shift = 1;           // of the ring
  bool own_stays = false;  // of an all-to-all: a rank keeps its own segment where it is
};

// The phases of `rank`. All ranks have the same number of them. An empty phase only waits.
std::vector<MovePhase> PeerPlan(const PeerProblem& problem, Direction direction, int rank);

// Of a plan of kStore, the copies to other ranks alone: without sums, and without copies within the
// rank. A sum is copied from where the rank has it itself. All phases stay, even empty ones.
std::vector<MovePhase> MovesToPeers(std::vector<MovePhase> phases, int rank);

// Elements of each of its moves: a segment, or by mail what one rank sends to another.
long MoveCount(const PeerProblem& problem, Direction direction);

// Elements of the scratch buffer that the plan needs.
long ScratchCount(const PeerProblem& problem, Direction direction);

// The largest message from one rank to another that is sent as mail; chosen for two ranks.
constexpr long kMostMailBytes = 128L << 10;

}  // namespace overlapbench
