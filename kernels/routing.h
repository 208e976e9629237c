// Routing: which experts each token of a mixture of experts goes to, on all ranks.
//
// Each rank has `tokens` tokens and experts / ranks experts, those of rank 0 first. A token goes to
// `topk` different experts, at random. `skew` percent of the tokens have the last expert, the
// popular one, as their first choice; all other choices are uniform. So skew 0 is balanced, and 100
// sends every token there. Each choice has a weight in (0, 1).
//
// A rank sends a copy of a token for each of its choices. The rows that it sends, and those that it
// receives, are blocks of one size, one for each micro-batch and peer:
//
//   micro-batch 0 | to rank 0 | to rank 1 | …   micro-batch 1 | to rank 0 | …
//
// In a block, copies are in the order of their experts, and the rest is padding. A block has as
// many rows as the largest one needs, a multiple of 16. So no token is dropped, and an all-to-all
// of equal blocks carries them, as in GShard (D. Lepikhin et al., 2020) with enough capacity. A
// combination goes the other way, so a rank's copies come back in the rows in which they left.
//
// Every rank knows the routing of all, so that results can be checked.
#pragma once

#include <cstdint>
#include <vector>

namespace overlapbench {

struct RoutingShape {
  int ranks = 1;
  long tokens = 0;  // of one rank
  long experts = 1;
  long topk = 1;
  long microbatches = 1;
  long skew = 0;  // percent
};

inline constexpr long kRoutedRows = 16;  // a block has a multiple of them

class Routing {
 public:
  // The ranks divide the experts, the micro-batches the tokens; topk is at most the experts.
  explicit Routing(const RoutingShape& shape);

  [[nodiscard]] const RoutingShape& shape() const { return shape_; }
  [[nodiscard]] long experts_of_rank() const { return shape_.experts / shape_.ranks; }
  [[nodiscard]] long block_rows() const { return block_rows_; }
  [[nodiscard]] long rows() const { return shape_.microbatches * shape_.ranks * block_rows_; }

  [[nodiscard]] long ExpertOf(int rank, long token, long choice) const {
    return ranks_[rank].expert[token * shape_.topk + choice];
  }
  [[nodiscard]] float WeightOf(int rank, long token, long choice) const;
  // The row in which a copy leaves, and comes back.
  [[nodiscard]] long RowOf(int rank, long token, long choice) const {
    return ranks_[rank].row[token * shape_.topk + choice];
  }
  // The token whose copy leaves in a row; -1: padding.
  [[nodiscard]] long TokenAt(int rank, long row) const { return ranks_[rank].token_at[row]; }

  // Whether a row is in the rank's block for itself, which no exchange moves.
  [[nodiscard]] bool StaysOn(int rank, long row) const {
    return row / block_rows_ % shape_.ranks == rank;
  }

  // Rows that a rank has received from one rank for one of its own experts.
  struct Piece {
    long first = 0;
    long rows = 0;
    long expert = 0;  // among the rank's own
  };
  // The pieces of a micro-batch that are not empty, expert by expert.
  [[nodiscard]] std::vector<Piece> PiecesOf(int rank, long microbatch) const;
  // The expert, among the rank's own, that a row received is for; -1: padding.
  [[nodiscard]] long ExpertAt(int rank, long row) const;

  // How many copies go to a rank's experts.
  [[nodiscard]] long LoadOf(int rank) const;
  // The rank with the most; the first of several.
  [[nodiscard]] int straggler() const;

 private:
  struct OfRank {
    std::vector<long> expert;  // by token and choice
    std::vector<long> row;     // the same
    std::vector<long> token_at;
    std::vector<std::vector<long>> copies;  // by micro-batch and expert
  };
  void Choose(int rank);
  void Place(int rank);
  [[nodiscard]] long MicrobatchOf(long token) const {
    return token / (shape_.tokens / shape_.microbatches);
  }
  [[nodiscard]] long FirstOfBlock(long microbatch, long peer) const {
    return (microbatch * shape_.ranks + peer) * block_rows_;
  }

  RoutingShape shape_;
  long block_rows_ = 0;
  std::vector<OfRank> ranks_;
};

}  // namespace overlapbench
