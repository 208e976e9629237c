// Plans of our own collectives, carried out on arrays in memory: every rank ends with what the
// operation promises, whatever the order of the ranks within a phase.
#include "comm/peer_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <numeric>
#include <set>
#include <vector>

#include "thrown.h"

namespace overlapbench {
namespace {

constexpr long kSegment = 3;
constexpr long kUnset = -1;

using Array = std::vector<long>;

Place Ahead(Place place, long element) {
  place.first += element;
  return place;
}

// All ranks' buffers. In place, a rank has one.
class Node {
 public:
  explicit Node(const PeerProblem& problem) : problem_(problem) {
    const long count = problem.ranks * problem.segment;
    for (int rank = 0; rank < problem.ranks; ++rank) {
      for (const PeerBuffer buffer :
           {PeerBuffer::kSend, PeerBuffer::kReceive, PeerBuffer::kScratch})
        arrays_[{rank, buffer}] = Array(count, kUnset);
      arrays_[{rank, PeerBuffer::kMail}] =
          Array(problem.ranks * MoveCount(problem, Direction::kMail), kUnset);
    }
  }
  Array& At(int rank, PeerBuffer buffer) {
    const bool is_shared = problem_.in_place && buffer == PeerBuffer::kSend;
    return arrays_.at({rank, is_shared ? PeerBuffer::kReceive : buffer});
  }
  long* Element(const Place& place) { return &At(place.rank, place.buffer).at(place.first); }

  void CarryOut(const Move& move) {
    for (long i = 0; i < move.count; ++i) CarryOut(move, i);
  }
  // One element of a move.
  void CarryOut(const Move& move, long i) {
    long sum = 0;
    for (const Place& from : move.from) sum += *Element(Ahead(from, i));
    for (const Place& to : move.to) *Element(Ahead(to, i)) = sum;
  }

 private:
  PeerProblem problem_;
  std::map<std::pair<int, PeerBuffer>, Array> arrays_;
};

long Input(int rank, long index) { return 1 + 1000 * rank + index; }

bool SendsSegment(Operation operation) { return operation == Operation::kAllGather; }
bool ReceivesSegment(Operation operation) { return operation == Operation::kReduceScatter; }

// Writes each rank's input where the operation reads it.
void Fill(Node& node, const PeerProblem& problem) {
  for (int rank = 0; rank < problem.ranks; ++rank) {
    const long all = problem.operation == Operation::kShiftRing ? problem.segment
                                                                : problem.ranks * problem.segment;
    const long count = SendsSegment(problem.operation) ? problem.segment : all;
    const long first =
        problem.in_place && SendsSegment(problem.operation) ? rank * problem.segment : 0;
    for (long i = 0; i < count; ++i)
      node.At(rank, PeerBuffer::kSend).at(first + i) = Input(rank, i);
  }
}

// Element `index` of what `rank` must have received.
long Expected(const PeerProblem& problem, int rank, long index) {
  const auto sum = [&](long at) {
    long total = 0;
    for (int peer = 0; peer < problem.ranks; ++peer) total += Input(peer, at);
    return total;
  };
  const auto peer = static_cast<int>(index / problem.segment);
  const long rest = index % problem.segment;
  switch (problem.operation) {
    case Operation::kAllToAll:
      if (problem.own_stays && peer == rank) return kUnset;
      return Input(peer, rank * problem.segment + rest);
    case Operation::kAllReduce:
      return sum(index);
    case Operation::kAllGather:
      return Input(peer, rest);
    case Operation::kReduceScatter:
      return sum(rank * problem.segment + index);
    case Operation::kBroadcast:
      return Input(problem.root, index);
    case Operation::kShiftRing:
      return Input((rank + problem.ranks - problem.shift) % problem.ranks, index);
    case Operation::kSend:
    case Operation::kReceive:
      break;
  }
  return kUnset;
}

Array Received(Node& node, const PeerProblem& problem, int rank) {
  const bool in_part = problem.in_place && ReceivesSegment(problem.operation);
  const Array& all = node.At(rank, in_part ? PeerBuffer::kSend : PeerBuffer::kReceive);
  const bool segment_only =
      ReceivesSegment(problem.operation) || problem.operation == Operation::kShiftRing;
  const auto first = all.begin() + (in_part ? rank * problem.segment : 0);
  return {first, segment_only ? first + problem.segment : all.end()};
}

Array AllExpected(const PeerProblem& problem, int rank, std::size_t count) {
  Array expected(count);
  for (std::size_t i = 0; i < count; ++i)
    expected[i] = Expected(problem, rank, static_cast<long>(i));
  return expected;
}

void ExpectResult(Node& node, const PeerProblem& problem) {
  for (int rank = 0; rank < problem.ranks; ++rank) {
    const Array received = Received(node, problem, rank);
    EXPECT_EQ(received, AllExpected(problem, rank, received.size())) << "rank " << rank;
  }
}

std::vector<std::vector<MovePhase>> PlansOf(const PeerProblem& problem, Direction direction) {
  std::vector<std::vector<MovePhase>> plans;
  for (int rank = 0; rank < problem.ranks; ++rank)
    plans.push_back(PeerPlan(problem, direction, rank));
  return plans;
}

// Pieces of different lengths, in whole words; some are empty if there are few elements.
std::vector<Range> UnequalPieces(const PeerProblem& problem, Direction direction, long count) {
  const long words = MoveCount(problem, direction) / problem.word;
  std::vector<Range> pieces;
  for (long i = 0; i < count; ++i) {
    pieces.push_back({words * i * i / (count * count) * problem.word,
                      words * (i + 1) * (i + 1) / (count * count) * problem.word});
  }
  return pieces;
}

// The plans of all ranks, carried out in pieces.
std::vector<std::vector<MovePhase>> StepsOf(const PeerProblem& problem, Direction direction,
                                            long pieces) {
  auto plans = PlansOf(problem, direction);
  for (auto& plan : plans) plan = InSteps(plan, UnequalPieces(problem, direction, pieces));
  return plans;
}

template <class Visit>
void ForEachElement(const std::vector<std::vector<MovePhase>>& plans, std::size_t step,
                    const Visit& visit) {
  for (const auto& plan : plans)
    for (const Move& move : plan.at(step))
      for (long i = 0; i < move.count; ++i) visit(move, i);
}

struct Case {
  PeerProblem problem;
  Direction direction;
};

// Out of place on any number of ranks; in place where the operation can be. Mail goes to others.
std::vector<Case> Cases() {
  using enum Operation;
  std::vector<Case> cases;
  for (const Operation operation :
       {kAllToAll, kAllReduce, kAllGather, kReduceScatter, kBroadcast, kShiftRing}) {
    for (const Direction direction :
         {Direction::kLoad, Direction::kStore, Direction::kBoth, Direction::kMail}) {
      for (const int ranks : {1, 2, 3, 4, 5, 6, 7, 8, 13, 33, 64}) {
        if (direction == Direction::kMail && ranks == 1) continue;
        cases.push_back({{operation, ranks, kSegment, false, 0}, direction});
        if (operation != kAllToAll && operation != kShiftRing)
          cases.push_back({{operation, ranks, kSegment, true, 0}, direction});
        if (operation == kAllToAll)
          cases.push_back({{operation, ranks, kSegment, false, 0, 1, true}, direction});
        if (operation == kBroadcast && ranks > 1) {
          cases.push_back({{operation, ranks, kSegment, false, ranks - 1}, direction});
          cases.push_back({{operation, ranks, kSegment, true, ranks - 1}, direction});
          cases.push_back({{operation, ranks, 2 * kSegment, false, 0, 1, false, 2}, direction});
        }
        if (operation == kShiftRing && ranks > 2)
          cases.push_back({{operation, ranks, kSegment, false, 0, ranks - 1}, direction});
      }
    }
  }
  return cases;
}

std::vector<Case> CasesOf(Direction direction) {
  std::vector<Case> cases = Cases();
  std::erase_if(cases, [&](const Case& one) { return one.direction != direction; });
  return cases;
}

std::string NameOf(const testing::TestParamInfo<Case>& info) {
  constexpr std::array kOperations = {"AllToAll",      "AllReduce", "AllGather",
                                      "ReduceScatter", "Broadcast", "ShiftRing"};
  constexpr std::array kDirections = {"Load", "Store", "Both", "Mail"};
  const auto& [problem, direction] = info.param;
  return std::string(kOperations.at(static_cast<std::size_t>(problem.operation))) +
         kDirections.at(static_cast<std::size_t>(direction)) + std::to_string(problem.ranks) +
         (problem.in_place ? "InPlace" : "") + (problem.own_stays ? "OwnStays" : "") +
         (problem.root > 0 ? "FromTheLast" : "") + (problem.word > 1 ? "InWords" : "") +
         (problem.shift > 1 ? "ToThePrevious" : "");
}

class PeerPlanTest : public testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(All, PeerPlanTest, testing::ValuesIn(Cases()), NameOf);

// Carried out as a whole and in pieces. The ranks of a step come one after the other here, first to
// last and then last to first: a plan that depends on their order within a step fails in one of the
// two.
TEST_P(PeerPlanTest, GivesEveryRankTheResultOfTheOperation) {
  const auto& [problem, direction] = GetParam();
  std::vector<int> order(problem.ranks);
  std::iota(order.begin(), order.end(), 0);
  for (const long pieces : {1, 1, 2, 4, 4}) {
    const auto plans = StepsOf(problem, direction, pieces);
    Node node(problem);
    Fill(node, problem);
    for (std::size_t step = 0; step < plans[0].size(); ++step) {
      for (const int rank : order)
        for (const Move& move : plans[rank].at(step)) node.CarryOut(move);
    }
    ExpectResult(node, problem);
    std::ranges::reverse(order);
  }
}

// Nothing orders the moves of a step, on one rank or on several: none may read what another one
// writes, and no two may write to one place.
TEST_P(PeerPlanTest, ReadsNothingThatTheSameStepWrites) {
  const auto& [problem, direction] = GetParam();
  for (const long pieces : {1, 3}) {
    const auto plans = StepsOf(problem, direction, pieces);
    for (std::size_t step = 0; step < plans[0].size(); ++step) {
      std::map<const long*, std::pair<const Move*, long>> writers;
      Node node(problem);
      ForEachElement(plans, step, [&](const Move& move, long i) {
        for (const Place& to : move.to)
          EXPECT_TRUE(writers.try_emplace(node.Element(Ahead(to, i)), &move, i).second);
      });
      ForEachElement(plans, step, [&](const Move& move, long i) {
        for (const Place& from : move.from) {
          const auto writer = writers.find(node.Element(Ahead(from, i)));
          EXPECT_TRUE(writer == writers.end() || writer->second == std::pair(&move, i));
        }
      });
    }
  }
}

// Threads need only wait for those with the same share of all moves: here a share is one element,
// and it passes through all phases before the next one starts.
TEST_P(PeerPlanTest, NeedsOfEarlierMovesTheSameShareOnly) {
  const auto& [problem, direction] = GetParam();
  const auto plans = PlansOf(problem, direction);
  const long count = MoveCount(problem, direction);
  for (const bool from_the_end : {false, true}) {
    Node node(problem);
    Fill(node, problem);
    for (long i = 0; i < count; ++i) {
      const long share = from_the_end ? count - 1 - i : i;
      for (std::size_t phase = 0; phase < plans[0].size(); ++phase) {
        for (const auto& plan : plans)
          for (const Move& move : plan.at(phase))
            if (share < move.count) node.CarryOut(move, share);
      }
    }
    ExpectResult(node, problem);
  }
}

TEST_P(PeerPlanTest, HasTheSamePhasesOnEveryRankAndMovesOfOneLengthButForAWord) {
  const auto& [problem, direction] = GetParam();
  const auto plans = PlansOf(problem, direction);
  for (const auto& plan : plans) {
    EXPECT_EQ(plan.size(), plans[0].size());
    for (const auto& phase : plan)
      for (const Move& move : phase) {
        EXPECT_LE(move.count, MoveCount(problem, direction));
        EXPECT_GE(move.count, MoveCount(problem, direction) - problem.word);
        EXPECT_EQ(move.count % problem.word, 0);
      }
  }
}

// A piece may have no elements of a move, which then is none of its step.
TEST_P(PeerPlanTest, MovesSomethingInEveryMove) {
  const auto& [problem, direction] = GetParam();
  if (problem.ranks > 8) return;  // as with fewer
  for (const auto& plan : StepsOf(problem, direction, 4))
    for (const auto& step : plan)
      for (const Move& move : step) EXPECT_GT(move.count, 0);
}

// Loads write nothing to another rank's memory, and stores read nothing from it.
TEST_P(PeerPlanTest, CrossesTheLinkInItsDirectionOnly) {
  const auto& [problem, direction] = GetParam();
  if (direction == Direction::kBoth) GTEST_SKIP() << "it does both";
  const auto plans = PlansOf(problem, direction);
  for (int rank = 0; rank < problem.ranks; ++rank) {
    for (const auto& phase : plans[rank]) {
      for (const Move& move : phase) {
        for (const Place& place : direction == Direction::kLoad ? move.to : move.from)
          EXPECT_EQ(place.rank, rank);
      }
    }
  }
}

// It has all, and in place there is nothing to copy.
TEST_P(PeerPlanTest, WritesNothingToARootThatBroadcastsInPlace) {
  const auto& [problem, direction] = GetParam();
  if (problem.operation != Operation::kBroadcast || !problem.in_place) return;
  for (const auto& plan : PlansOf(problem, direction))
    for (const auto& phase : plan)
      for (const Move& move : phase)
        for (const Place& place : move.to) EXPECT_NE(place.rank, problem.root);
}

class MovesToPeersTest : public testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(All, MovesToPeersTest, testing::ValuesIn(CasesOf(Direction::kStore)),
                         NameOf);

TEST_P(MovesToPeersTest, OnlyCopiesAndOnlyToOtherRanks) {
  const auto& [problem, direction] = GetParam();
  for (int rank = 0; rank < problem.ranks; ++rank) {
    for (const auto& phase : MovesToPeers(PeerPlan(problem, direction, rank), rank)) {
      for (const Move& move : phase) {
        EXPECT_EQ(move.from.size(), 1);
        EXPECT_FALSE(move.to.empty());
        for (const Place& to : move.to) EXPECT_NE(to.rank, rank);
      }
    }
  }
}

// Where a phase writes to other ranks, and how many elements, in its order.
std::vector<std::pair<Place, long>> WrittenToPeers(const MovePhase& phase, int rank) {
  std::vector<std::pair<Place, long>> written;
  for (const Move& move : phase) {
    for (const Place& to : move.to)
      if (to.rank != rank) written.emplace_back(to, move.count);
  }
  return written;
}

TEST_P(MovesToPeersTest, WritesToOtherRanksWhatThePlanDoesInItsPhases) {
  const auto& [problem, direction] = GetParam();
  for (int rank = 0; rank < problem.ranks; ++rank) {
    const auto plan = PeerPlan(problem, direction, rank);
    const auto moves = MovesToPeers(plan, rank);
    ASSERT_EQ(moves.size(), plan.size());
    for (std::size_t phase = 0; phase < plan.size(); ++phase)
      EXPECT_EQ(WrittenToPeers(moves[phase], rank), WrittenToPeers(plan[phase], rank));
  }
}

// They omit the sums and copies within a rank. Executed after these, they complete each phase.
TEST_P(MovesToPeersTest, GivesTheResultWithWhatStaysWithinTheRank) {
  const auto& [problem, direction] = GetParam();
  const auto plans = PlansOf(problem, direction);
  Node node(problem);
  Fill(node, problem);
  for (std::size_t phase = 0; phase < plans[0].size(); ++phase) {
    for (int rank = 0; rank < problem.ranks; ++rank) {
      for (Move move : plans[rank].at(phase)) {
        std::erase_if(move.to, [&](const Place& to) { return to.rank != rank; });
        node.CarryOut(move);
      }
      const auto moves = MovesToPeers(plans[rank], rank);
      for (const Move& move : moves.at(phase)) node.CarryOut(move);
    }
  }
  ExpectResult(node, problem);
}

class MailPlanTest : public testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(All, MailPlanTest, testing::ValuesIn(CasesOf(Direction::kMail)), NameOf);

// The ranks do not meet, so a rank may touch nothing of another's but its mail.
TEST_P(MailPlanTest, SendsOnlyMailAndThenTakesOnlyItsOwn) {
  const auto& [problem, direction] = GetParam();
  const auto plans = PlansOf(problem, direction);
  const auto is_own_input = [&](const Place& place, int rank) {
    const bool is_input = place.buffer == PeerBuffer::kSend ||
                          (problem.in_place && place.buffer == PeerBuffer::kReceive);
    return place.rank == rank && is_input;
  };
  for (int rank = 0; rank < problem.ranks; ++rank) {
    ASSERT_EQ(plans[rank].size(), 2);
    for (const Move& sent : plans[rank][0]) {
      ASSERT_EQ(sent.from.size(), 1);
      EXPECT_TRUE(is_own_input(sent.from[0], rank));
      for (const Place& to : sent.to)
        EXPECT_TRUE(to.buffer == PeerBuffer::kMail && to.rank != rank);
    }
    for (const Move& taken : plans[rank][1]) {
      ASSERT_EQ(taken.to.size(), 1);
      EXPECT_TRUE(taken.to[0].rank == rank && taken.to[0].buffer != PeerBuffer::kMail);
      for (const Place& from : taken.from)
        EXPECT_TRUE(from == Place({rank, PeerBuffer::kMail, from.first}) ||
                    is_own_input(from, rank));
    }
  }
}

// A word that nobody reads could still be in flight when the next call writes to the same place.
TEST_P(MailPlanTest, TakesEachWordOnceThatIsSent) {
  const auto& [problem, direction] = GetParam();
  std::vector<Place> sent;
  std::vector<Place> taken;
  for (const auto& plan : PlansOf(problem, direction)) {
    for (const Move& move : plan.at(0)) sent.insert(sent.end(), move.to.begin(), move.to.end());
    for (const Move& move : plan.at(1)) {
      std::ranges::copy_if(move.from, std::back_inserter(taken),
                           [](const Place& place) { return place.buffer == PeerBuffer::kMail; });
    }
  }
  std::ranges::sort(sent);
  std::ranges::sort(taken);
  EXPECT_EQ(sent, taken);
  EXPECT_EQ(std::set(sent.begin(), sent.end()).size(), sent.size());
}

// Sums of floating-point numbers depend on the order.
TEST_P(MailPlanTest, AddsInTheOrderOfTheRanks) {
  const auto& [problem, direction] = GetParam();
  for (int rank = 0; rank < problem.ranks; ++rank) {
    std::vector<Place> in_order;
    for (int peer = 0; peer < problem.ranks; ++peer)
      in_order.push_back({rank, PeerBuffer::kMail, peer * MoveCount(problem, direction)});
    const auto plan = PeerPlan(problem, direction, rank);
    for (const Move& move : plan.at(1)) {
      if (move.from.size() == 1) continue;
      in_order.at(rank) = move.from.at(rank);  // its own, which is no mail
      EXPECT_EQ(move.from, in_order);
    }
  }
}

TEST(PeerPlan, SendsByMailAllThatAnotherRankNeedsInOneMove) {
  const auto count = [](Operation operation) {
    return MoveCount({operation, 4, kSegment}, Direction::kMail);
  };
  EXPECT_EQ(count(Operation::kAllReduce), 4 * kSegment);
  EXPECT_EQ(count(Operation::kBroadcast), 4 * kSegment);
  EXPECT_EQ(count(Operation::kReduceScatter), kSegment);
  EXPECT_EQ(count(Operation::kShiftRing), kSegment);
  EXPECT_EQ(MoveCount({Operation::kAllReduce, 4, kSegment}, Direction::kBoth), kSegment);
}

// Its outgoing link limits a broadcast. A move crosses it once if another rank reads from the root,
// and once for each other rank that the root writes to.
TEST(PeerPlan, TakesEachByteOfABroadcastFromTheRootOnce) {
  for (const auto& [problem, direction] : Cases()) {
    if (problem.operation != Operation::kBroadcast || direction == Direction::kMail) continue;
    long taken = 0;
    for (int rank = 0; rank < problem.ranks; ++rank) {
      for (const auto& phase : PeerPlan(problem, direction, rank)) {
        for (const Move& move : phase) {
          const auto written = std::ranges::count_if(
              move.to, [root = problem.root](const Place& to) { return to.rank != root; });
          if (move.from[0].rank == problem.root)
            taken += move.count * (rank == problem.root ? written : 1);
        }
      }
    }
    EXPECT_EQ(taken, problem.ranks > 1 ? problem.ranks * problem.segment : 0)
        << problem.ranks << " ranks, direction " << static_cast<int>(direction);
  }
}

// The n-th moves of all ranks use the memory of different peers: every link is busy, and none
// shared.
TEST_P(PeerPlanTest, UsesEveryLinkOnceAtATime) {
  const auto& [problem, direction] = GetParam();
  if (problem.operation != Operation::kAllToAll || direction == Direction::kMail) return;
  const auto plans = PlansOf(problem, direction);
  const std::size_t moves = plans[0].at(0).size();
  EXPECT_EQ(moves, problem.ranks - (problem.own_stays ? 1 : 0));
  for (std::size_t n = 0; n < moves; ++n) {
    std::set<int> peers;
    for (const auto& plan : plans) {
      const Move& move = plan[0].at(n);
      peers.insert(direction == Direction::kLoad ? move.from[0].rank : move.to[0].rank);
    }
    EXPECT_EQ(std::ssize(peers), problem.ranks) << n;
  }
}

// The plan writes to all the scratch memory that it asks for, and to nothing beyond.
TEST_P(PeerPlanTest, NeedsTheScratchMemoryThatItUses) {
  const auto& [problem, direction] = GetParam();
  if (problem.ranks == 1) return;  // it sums nothing
  long end = 0;
  for (const auto& plan : PlansOf(problem, direction)) {
    for (const auto& phase : plan) {
      for (const Move& move : phase) {
        for (const Place& to : move.to)
          if (to.buffer == PeerBuffer::kScratch) end = std::max(end, to.first + move.count);
      }
    }
  }
  EXPECT_EQ(ScratchCount(problem, direction), end);
}

TEST(PeerPlan, IsOfCollectivesAlone) {
  for (const Operation operation : {Operation::kSend, Operation::kReceive}) {
    for (const Direction direction : {Direction::kLoad, Direction::kMail}) {
      EXPECT_EQ(Thrown<Error>([&] { PeerPlan({operation, 2, kSegment}, direction, 0); }),
                "communication over peers' memory supports collectives only");
    }
  }
}

TEST(PeerPlan, MailsUpToALimit) {
  EXPECT_EQ(MostMailBytes(Operation::kAllReduce), 131072);
  EXPECT_EQ(MostMailBytes(Operation::kBroadcast), 262144);
}

}  // namespace
}  // namespace overlapbench
