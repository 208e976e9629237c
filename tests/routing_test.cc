// Routing: every copy of a token reaches the expert that it chose, and comes back where it left.
#include "kernels/routing.h"

#include <gtest/gtest.h>

#include <set>
#include <utility>
#include <vector>

namespace overlapbench {
namespace {

std::vector<RoutingShape> Shapes() {
  return {{.ranks = 1, .tokens = 12, .experts = 3, .topk = 3},
          {.ranks = 2, .tokens = 96, .experts = 8, .topk = 2, .microbatches = 2, .skew = 50},
          {.ranks = 3, .tokens = 60, .experts = 6, .topk = 1, .microbatches = 4, .skew = 100},
          {.ranks = 4, .tokens = 32, .experts = 4, .topk = 2, .microbatches = 1},
          {.ranks = 33, .tokens = 16, .experts = 66, .topk = 2, .microbatches = 2},
          {.ranks = 1024, .tokens = 4, .experts = 1024, .topk = 2, .microbatches = 2}};
}

// Calls visit(rank, token, choice) for every copy.
template <class Visit>
void ForEachCopy(const RoutingShape& shape, const Visit& visit) {
  for (int rank = 0; rank < shape.ranks; ++rank) {
    for (long token = 0; token < shape.tokens; ++token)
      for (long choice = 0; choice < shape.topk; ++choice) visit(rank, token, choice);
  }
}

TEST(Routing, GivesATokenDifferentExperts) {
  for (const RoutingShape& shape : Shapes()) {
    const Routing routing(shape);
    std::set<std::vector<long>> all;
    ForEachCopy(shape, [&](int rank, long token, long choice) {
      const long expert = routing.ExpertOf(rank, token, choice);
      EXPECT_TRUE(all.insert({rank, token, expert}).second) << rank << " " << token;
      EXPECT_GE(expert, 0);
      EXPECT_LT(expert, shape.experts);
      EXPECT_GT(routing.WeightOf(rank, token, choice), 0);
      EXPECT_LT(routing.WeightOf(rank, token, choice), 1);
    });
  }
}

// An all-to-all moves the block for a rank to that rank's block for the sender.
TEST(Routing, CopiesArriveAtTheirExperts) {
  for (const RoutingShape& shape : Shapes()) {
    const Routing routing(shape);
    std::set<std::pair<int, long>> rows;
    ForEachCopy(shape, [&](int rank, long token, long choice) {
      const long row = routing.RowOf(rank, token, choice);
      EXPECT_TRUE(rows.emplace(rank, row).second) << "a row of two copies";
      EXPECT_EQ(routing.TokenAt(rank, row), token);
      const long expert = routing.ExpertOf(rank, token, choice);
      const auto to = static_cast<int>(expert / routing.experts_of_rank());
      const long block = row / routing.block_rows();
      EXPECT_EQ(block % shape.ranks, to);
      EXPECT_EQ(block / shape.ranks, token / (shape.tokens / shape.microbatches));
      const long arrives = row + (rank - to) * routing.block_rows();
      EXPECT_EQ(routing.ExpertAt(to, arrives), expert % routing.experts_of_rank());
    });
    long padding = 0;
    for (int rank = 0; rank < shape.ranks; ++rank)
      for (long row = 0; row < routing.rows(); ++row) padding += routing.TokenAt(rank, row) < 0;
    EXPECT_EQ(padding + std::ssize(rows), shape.ranks * routing.rows());
  }
}

TEST(Routing, PiecesAreTheRowsOfEachExpert) {
  for (const RoutingShape& shape : Shapes()) {
    const Routing routing(shape);
    long copies = 0;
    for (int rank = 0; rank < shape.ranks; ++rank) {
      std::vector<long> expert_at(routing.rows(), -1);
      long load = 0;
      for (long i = 0; i < shape.microbatches; ++i) {
        for (const auto& [first, rows, expert] : routing.PiecesOf(rank, i)) {
          EXPECT_GT(rows, 0);
          load += rows;
          for (long row = first; row < first + rows; ++row) expert_at[row] = expert;
          EXPECT_EQ(first / (shape.ranks * routing.block_rows()), i);
        }
      }
      EXPECT_EQ(load, routing.LoadOf(rank));
      copies += load;
      for (long row = 0; row < routing.rows(); ++row)
        EXPECT_EQ(routing.ExpertAt(rank, row), expert_at[row]) << row;
    }
    EXPECT_EQ(copies, shape.ranks * shape.tokens * shape.topk);
  }
}

TEST(Routing, BlocksHaveTheLargestSizeRoundedUpToSixteen) {
  // All copies of a micro-batch of 15 tokens go to rank 2.
  EXPECT_EQ(Routing(Shapes()[2]).block_rows(), 16);
  EXPECT_EQ(Routing({.ranks = 2, .tokens = 34, .experts = 2, .topk = 2}).block_rows(), 48);
}

TEST(Routing, SkewSendsThatShareOfTheTokensToTheLastExpert) {
  for (const long skew : {0, 25, 100}) {
    const RoutingShape shape{.ranks = 2, .tokens = 8000, .experts = 8, .topk = 1, .skew = skew};
    const Routing routing(shape);
    long popular = 0;
    ForEachCopy(shape, [&](int rank, long token, long choice) {
      popular += routing.ExpertOf(rank, token, choice) == 7;
    });
    const double share = static_cast<double>(skew) / 100;
    EXPECT_NEAR(static_cast<double>(popular) / 16000, share + (1 - share) / 8,
                skew == 100 ? 0 : 0.005)
        << skew;
    const double load = static_cast<double>(routing.LoadOf(1)) / 8000;
    EXPECT_NEAR(load, 1 + share, 0.02) << skew;
    if (skew > 0) {
      EXPECT_EQ(routing.straggler(), 1);
    }
  }
}

TEST(Routing, TheFirstOfEquallyLoadedRanksIsTheStraggler) {
  EXPECT_EQ(Routing({.ranks = 3, .tokens = 8, .experts = 3, .topk = 3}).straggler(), 0);
}

// Of 64 tokens with two choices, few have the same two weights by chance.
TEST(Routing, WeightsAreOfATokenAndItsChoice) {
  const Routing routing({.ranks = 2, .tokens = 64, .experts = 4, .topk = 2});
  for (const int rank : {0, 1}) {
    std::set<std::pair<float, float>> pairs;
    for (long token = 0; token < 64; ++token)
      pairs.emplace(routing.WeightOf(rank, token, 0), routing.WeightOf(rank, token, 1));
    EXPECT_GT(pairs.size(), 56U);
  }
  EXPECT_NE(routing.WeightOf(0, 5, 0), routing.WeightOf(1, 5, 0));
}

TEST(Routing, IsDeterministic) {
  const RoutingShape shape = Shapes()[1];
  const Routing one(shape);
  const Routing other(shape);
  long differ = 0;
  ForEachCopy(shape, [&](int rank, long token, long choice) {
    EXPECT_EQ(one.ExpertOf(rank, token, choice), other.ExpertOf(rank, token, choice));
    differ += one.ExpertOf(0, token, choice) != one.ExpertOf(1, token, choice);
  });
  EXPECT_GT(differ, 0) << "ranks have tokens of their own";
}

}  // namespace
}  // namespace overlapbench
