#include "kernels/routing.h"

#include <algorithm>
#include <numeric>

#include "workload/data.h"

namespace overlapbench {
namespace {

constexpr std::uint32_t kSeedOfChoices = 5100;
constexpr std::uint32_t kSeedOfWeights = 6100;

}  // namespace

Routing::Routing(const RoutingShape& shape) : shape_(shape), ranks_(shape.ranks) {
  for (int rank = 0; rank < shape.ranks; ++rank) Choose(rank);
  for (const OfRank& source : ranks_) {
    for (const std::vector<long>& copies : source.copies) {
      for (auto own = copies.begin(); own != copies.end(); own += experts_of_rank())
        block_rows_ = std::max(block_rows_, std::accumulate(own, own + experts_of_rank(), 0L));
    }
  }
  block_rows_ = (block_rows_ + kRoutedRows - 1) / kRoutedRows * kRoutedRows;
  for (int rank = 0; rank < shape.ranks; ++rank) Place(rank);
}

// Draws without repetition: a choice that is taken is drawn again.
void Routing::Choose(int rank) {
  constexpr long kPercent = 100;
  const auto [ranks, tokens, experts, topk, microbatches, skew] = shape_;
  OfRank& own = ranks_[rank];
  own.copies.assign(microbatches, std::vector<long>(experts));
  const std::uint32_t seed = kSeedOfChoices + static_cast<std::uint32_t>(rank);
  long draws = 0;
  for (long token = 0; token < tokens; ++token) {
    const auto first = std::ssize(own.expert);
    const bool is_drawn_to_popular = Random(seed, draws++) % kPercent < skew;
    if (is_drawn_to_popular) own.expert.push_back(experts - 1);
    while (std::ssize(own.expert) < first + topk) {
      const long drawn = Random(seed, draws++) % experts;
      if (std::find(own.expert.begin() + first, own.expert.end(), drawn) == own.expert.end())
        own.expert.push_back(drawn);
    }
    for (auto i = first; i < first + topk; ++i) ++own.copies[MicrobatchOf(token)][own.expert[i]];
  }
}

void Routing::Place(int rank) {
  OfRank& own = ranks_[rank];
  own.row.resize(own.expert.size());
  own.token_at.assign(rows(), -1);
  // Where the next copy for each expert is placed.
  std::vector<std::vector<long>> next = own.copies;
  for (long microbatch = 0; microbatch < shape_.microbatches; ++microbatch) {
    for (long expert = 0; expert < shape_.experts; ++expert) {
      const bool opens = expert % experts_of_rank() == 0;
      next[microbatch][expert] =
          opens ? FirstOfBlock(microbatch, expert / experts_of_rank())
                : next[microbatch][expert - 1] + own.copies[microbatch][expert - 1];
    }
  }
  for (long i = 0; i < std::ssize(own.expert); ++i) {
    const long token = i / shape_.topk;
    own.row[i] = next[MicrobatchOf(token)][own.expert[i]]++;
    own.token_at[own.row[i]] = token;
  }
}

float Routing::WeightOf(int rank, long token, long choice) const {
  const std::uint32_t seed = kSeedOfWeights + static_cast<std::uint32_t>(rank);
  return std::abs(RandomFraction(seed, token * shape_.topk + choice));
}

std::vector<Routing::Piece> Routing::PiecesOf(int rank, long microbatch) const {
  std::vector<Piece> pieces;
  std::vector<long> next;  // by source
  for (int source = 0; source < shape_.ranks; ++source)
    next.push_back(FirstOfBlock(microbatch, source));
  for (long expert = 0; expert < experts_of_rank(); ++expert) {
    for (int source = 0; source < shape_.ranks; ++source) {
      const long rows = ranks_[source].copies[microbatch][rank * experts_of_rank() + expert];
      if (rows > 0) pieces.push_back({next[source], rows, expert});
      next[source] += rows;
    }
  }
  return pieces;
}

long Routing::ExpertAt(int rank, long row) const {
  const long block = row / block_rows_;
  const OfRank& source = ranks_[block % shape_.ranks];
  long left = row % block_rows_;
  for (long expert = 0; expert < experts_of_rank(); ++expert) {
    left -= source.copies[block / shape_.ranks][rank * experts_of_rank() + expert];
    if (left < 0) return expert;
  }
  return -1;
}

long Routing::LoadOf(int rank) const {
  long load = 0;
  for (const OfRank& source : ranks_) {
    for (const std::vector<long>& copies : source.copies) {
      const auto own = copies.begin() + rank * experts_of_rank();
      load += std::accumulate(own, own + experts_of_rank(), 0L);
    }
  }
  return load;
}

int Routing::straggler() const {
  int most = 0;
  for (int rank = 1; rank < shape_.ranks; ++rank)
    if (LoadOf(rank) > LoadOf(most)) most = rank;
  return most;
}

}  // namespace overlapbench
