// The pieces in which copy engines carry out a plan of several phases.
#include <gtest/gtest.h>

#include <vector>

#include "comm/peer_plan.h"

namespace overlapbench {
namespace {

// They follow each other in whole words and cover every move. Those of a sum shrink.
TEST(PeerPieces, CopiesInPiecesThatCoverEverything) {
  for (const int ranks : {2, 3, 4, 5, 6, 7, 8}) {
    for (const long segment : {4L, (1L << 26) + 4}) {
      for (const Operation operation :
           {Operation::kAllReduce, Operation::kReduceScatter, Operation::kBroadcast}) {
        const PeerProblem problem{operation, ranks, segment, false, 0, 1, false, 4};
        const auto phases = static_cast<int>(PeerPlan(problem, Direction::kStore, 0).size());
        const auto pieces = PiecesByCopy(problem, phases);
        EXPECT_EQ(pieces.size() > 1, segment > 4 && phases > 1);
        long end = 0;
        for (const Range& piece : pieces) {
          EXPECT_EQ(piece.first, end);
          EXPECT_EQ(piece.end % problem.word, 0);
          EXPECT_GT(piece.end, piece.first);
          end = piece.end;
        }
        EXPECT_EQ(end, MoveCount(problem, Direction::kStore));
        EXPECT_TRUE(operation == Operation::kBroadcast ||
                    pieces.back().end - pieces.back().first <= pieces[0].end);
      }
    }
  }
}

// Where the pieces of `segment_MiB` end, in MiB.
std::vector<double> EndsOfPieces(Operation operation, int ranks, double segment_MiB) {
  constexpr double kElementsOfMiB = 1 << 18;
  const auto segment = static_cast<long>(segment_MiB * kElementsOfMiB);
  const PeerProblem problem{operation, ranks, segment, false, 0, 1, false, 4};
  std::vector<double> ends;
  for (const Range& piece :
       PiecesByCopy(problem, operation == Operation::kBroadcast ? ranks - 1 : 2))
    ends.push_back(static_cast<double>(piece.end) / kElementsOfMiB);
  return ends;
}

// Each piece is copied while the one before is summed, which takes `rest` of the time that its copy
// took: (ranks + 1) / (ranks - 1) / 6. None is cut that takes less time than a meeting.
TEST(PeerPieces, CopiesASumInPiecesAsLongAsTheSumBeforeEach) {
  using Ends = std::vector<double>;
  EXPECT_EQ(EndsOfPieces(Operation::kAllReduce, 2, 96), (Ends{48, 72, 84, 96}));
  EXPECT_EQ(EndsOfPieces(Operation::kReduceScatter, 2, 24), (Ends{12, 24}));
  EXPECT_EQ(EndsOfPieces(Operation::kAllReduce, 2, 23.5), (Ends{23.5}));
  const Ends of_four = EndsOfPieces(Operation::kAllReduce, 4, 108);
  ASSERT_EQ(of_four.size(), 3);
  EXPECT_NEAR(of_four[0], 78, 1e-4);
  EXPECT_NEAR(of_four[1], 78 + 30 * 13.0 / 18, 1e-4);
  EXPECT_EQ(of_four[2], 108);
}

// As many pieces as make the starts of their copies take as long as the chain is longer for them.
TEST(PeerPieces, PassesOnABroadcastInEqualPieces) {
  const auto count = [](int ranks, double all_MiB) {
    return EndsOfPieces(Operation::kBroadcast, ranks, all_MiB / ranks).size();
  };
  EXPECT_EQ(count(4, 1), 1);
  EXPECT_EQ(count(4, 63.9), 7);
  EXPECT_EQ(count(4, 64), 8);
  EXPECT_EQ(count(8, 48), 12);
  EXPECT_EQ(count(4, 4096 - 128), 62);
  EXPECT_EQ(count(4, 4096), 64);
  EXPECT_EQ(count(4, 8192), 64);
  const auto ends = EndsOfPieces(Operation::kBroadcast, 4, 16);
  for (std::size_t i = 0; i < ends.size(); ++i) EXPECT_EQ(ends[i], 8.0 * (i + 1));
}

// Whole words or not.
TEST(PeerPieces, APhaseAloneIsOnePiece) {
  const PeerProblem ring{Operation::kShiftRing, 2, 5, false, 0, 1, false, 4};
  const auto pieces = PiecesByCopy(ring, 1);
  ASSERT_EQ(pieces.size(), 1U);
  EXPECT_EQ(pieces[0].first, 0);
  EXPECT_EQ(pieces[0].end, 5);
}

}  // namespace
}  // namespace overlapbench
