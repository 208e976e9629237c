// Peer plan: which rank moves what between the ranks' buffers in the suite's own collectives.
//
// On one node with peer access, every GPU can read and write the memory of every other one. A
// collective is then a list of moves for each rank. A move adds up the elements at its sources and
// writes the sum to all its destinations; with one source it is a copy. Moves are grouped into
// phases. Before each phase, and after the last one, the ranks meet (but see kMail): a rank has
// arrived when all its earlier work is done. A phase reads from other ranks only what was written
// before it began.
//
// The n-th element of a buffer is Place{rank, buffer, n}. A share of a move (every k-th tile, say)
// depends only on the same share of earlier moves: blocks that execute the same share need only
// wait for each other. All moves of a plan have the same number of elements, but for those of a
// broadcast of more than two ranks, which differ by one word.
//
// So a plan can also be carried out in pieces (PlanSteps). Step s executes phase f on piece s - f.
// Different phases then run at once, and what they use (link, SMs) is busy at the same time.
//
// The plan's `Direction` says whether ranks read or write over the link. kLoad reads the data from
// the peers. kStore pushes it to them. Reductions that push, and those by copy engine, which cannot
// add, go through a scratch buffer on the rank that adds. kBoth reads, adds, and writes in one pass
// if the operation has both halves (all-reduce, broadcast).
//
// A broadcast sends each byte once from the root, whose outgoing link is the bottleneck. Every
// other rank gets a share and forwards it (kLoad, kBoth), or the data passes along a chain of all
// ranks (kStore). In the chain a rank sends to one other and receives from one, so copies never
// compete for a link, however the ranks drift apart. It has as many phases as links and needs
// pieces.
//
// kMail needs no meetings, because each word shows by itself that it has arrived. A plan has two
// phases. First a rank copies from its own send buffer to the others' mail. Then it copies or adds,
// from its own mail and its own send buffer to its own receive buffer. Mail has a slot for each
// sending rank, as large as a move: element n of what rank r sent is r * MoveCount + n (of a
// broadcast, n). All ranks add in the same order, so all have the same bits. Each rank sends
// everything that the others need, so this pays for short messages only.
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

constexpr long kPlanWordBytes = 16;

struct PeerProblem {
  Operation operation = Operation::kAllGather;
  int ranks = 1;
  // Elements of one rank's segment; for the ring, of the whole buffer.
  long segment = 0;
  // The send and receive buffers overlap. If one is a segment of the other, all places name the
  // larger one.
  bool in_place = false;
  int root = 0;
  int shift = 1;           // of the ring
  bool own_stays = false;  // for an all-to-all: a rank's own segment stays in place
  // Elements of a word of kPlanWordBytes, which no move divides. A segment has whole words.
  long word = 1;
};

// The phases of `rank`. All ranks have the same number of them. An empty phase only waits.
std::vector<MovePhase> PeerPlan(const PeerProblem& problem, Direction direction, int rank);

// The steps of a plan of `phases` that is carried out in `pieces`.
struct PlanSteps {
  int phases = 1;
  int pieces = 1;

  [[nodiscard]] constexpr int count() const { return phases + pieces - 1; }
  // Of a step: the phases that it executes, from the first up to `end_phase`.
  [[nodiscard]] constexpr int first_phase(int step) const {
    return step < pieces ? 0 : step - pieces + 1;
  }
  [[nodiscard]] constexpr int end_phase(int step) const {
    return step < phases ? step + 1 : phases;
  }
};

// Elements of a move, from the first up to `end`.
struct Range {
  long first = 0;
  long end = 0;
};
// The plan in pieces, which are ranges of every move, with a phase for each step.
std::vector<MovePhase> InSteps(const std::vector<MovePhase>& phases,
                               const std::vector<Range>& pieces);

// The pieces in which copy engines carry out a kStore plan of so many phases.
std::vector<Range> PiecesByCopy(const PeerProblem& problem, int phases);

// Reduces a kStore plan to its copies to other ranks, without sums and copies within the rank. A
// sum is copied from the rank's own buffer for it. Keeps all phases, even empty ones.
std::vector<MovePhase> MovesToPeers(std::vector<MovePhase> phases, int rank);

// Elements of the plan's longest move: usually a segment; with kMail, what one rank sends to
// another.
long MoveCount(const PeerProblem& problem, Direction direction);

// Elements of the scratch buffer that the plan needs.
long ScratchCount(const PeerProblem& problem, Direction direction);

// The largest message from one rank to another that is sent as mail; tuned for two ranks. That of a
// broadcast, whose only sender has the slots of two, may be twice as large.
constexpr long kMostMailBytes = 128L << 10;
constexpr long MostMailBytes(Operation operation) {
  return operation == Operation::kBroadcast ? 2 * kMostMailBytes : kMostMailBytes;
}

}  // namespace overlapbench
