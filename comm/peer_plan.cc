#include "comm/peer_plan.h"

#include <algorithm>
#include <cmath>

namespace overlapbench {
namespace {

// The elements of a move within the range; their count may be 0 or less.
Move Cut(Move move, const Range& range) {
  for (auto* const places : {&move.from, &move.to})
    for (Place& place : *places) place.first += range.first;
  move.count = std::min(range.end, move.count) - range.first;
  return move;
}

// Part `index` of `count` of a range, in whole words. Parts differ by at most one word.
Range PartOf(const Range& range, long word, long index, long count) {
  const long words = (range.end - range.first) / word;
  return {range.first + words * index / count * word,
          range.first + words * (index + 1) / count * word};
}

// A chain of so many phases takes phases - 1 pieces longer than one copy of everything. Each piece
// costs the start of its copy and a word to the next rank, 5 us, in which an engine copies 2 MiB.
// The sum of both is least where they are equal.
std::vector<Range> EqualPieces(const Range& all, const PeerProblem& problem, int phases) {
  constexpr double kStartBytes = 2 << 20;
  constexpr double kMostPieces = 64;
  const long words = all.end / problem.word;
  const auto bytes = static_cast<double>(words * kPlanWordBytes);
  const auto count = static_cast<long>(
      std::clamp(std::sqrt((phases - 1) * bytes / kStartBytes), 1.0, kMostPieces));
  std::vector<Range> pieces;
  for (long i = 0; i < count; ++i) pieces.push_back(PartOf(all, problem.word, i, count));
  return pieces;
}

// Of a sum, the last piece's addition has no copy beside it, so that piece should be short. Each
// piece costs a meeting and the start of its copies, which takes longer the more ranks there are,
// so there should be few. Therefore each piece is as short as it can be: its copy takes as long as
// the sum of the piece before. A rank receives ranks - 1 parts and adds ranks of them, writing one;
// a kernel of 16 SMs moves bytes six times as fast as the link. The sum of 24 MiB takes about as
// long as a meeting with its copies, both the longer the more ranks there are.
std::vector<Range> ShrinkingPieces(const Range& all, const PeerProblem& problem) {
  constexpr double kSpeedOfSums = 6;
  constexpr long kLeastCutBytes = 24L << 20;
  const int ranks = problem.ranks;
  const double rest_share = (ranks + 1.0) / (ranks - 1) / kSpeedOfSums;
  std::vector<Range> pieces;
  Range rest = all;
  const auto rest_words = [&] { return (rest.end - rest.first) / problem.word; };
  while (rest_words() * kPlanWordBytes >= kLeastCutBytes) {
    const auto words = static_cast<long>((1 - rest_share) * static_cast<double>(rest_words()));
    pieces.push_back({rest.first, rest.first + words * problem.word});
    rest.first = pieces.back().end;
  }
  pieces.push_back(rest);
  return pieces;
}

// The parts of a plan, seen from one rank.
class Planner {
 public:
  Planner(const PeerProblem& problem, Direction direction, int rank)
      : problem_(problem), direction_(direction), rank_(rank) {}

  [[nodiscard]] std::vector<MovePhase> Plan() const {
    if (direction_ == Direction::kMail) return Mail();
    switch (problem_.operation) {
      case Operation::kAllToAll:
        return {AllToAll()};
      case Operation::kAllGather:
        return {Gather(own_part(), pushes())};
      case Operation::kReduceScatter:
        return ReduceTo({reduced_part()});
      case Operation::kAllReduce:
        return AllReduce();
      case Operation::kBroadcast:
        return Broadcast();
      case Operation::kShiftRing:
        return {ShiftRing()};
      case Operation::kSend:
      case Operation::kReceive:
        break;
    }
    throw Error(kCollectivesOnly);
  }

 private:
  static constexpr const char* kCollectivesOnly =
      "communication over peers' memory supports collectives only";

  [[nodiscard]] bool pushes() const { return direction_ != Direction::kLoad; }
  // The other ranks in ring order, starting with the next, and this rank last: at any time all
  // ranks use different links.
  [[nodiscard]] std::vector<int> RanksInTurn() const {
    std::vector<int> turn;
    for (int step = 1; step <= problem_.ranks; ++step)
      turn.push_back((rank_ + step) % problem_.ranks);
    return turn;
  }
  [[nodiscard]] long Start(int segment) const { return segment * problem_.segment; }
  [[nodiscard]] long count() const { return MoveCount(problem_, direction_); }
  [[nodiscard]] Move Copy(Place from, Place to) const { return {{from}, {to}, count()}; }
  static void AddUnlessIdle(MovePhase& phase, Move move) {
    if (move.from != move.to) phase.push_back(std::move(move));
  }

  // A rank's contribution to an all-gather.
  [[nodiscard]] Place Contribution(int rank) const {
    return problem_.in_place ? Place{rank, PeerBuffer::kReceive, Start(rank)}
                             : Place{rank, PeerBuffer::kSend, 0};
  }
  [[nodiscard]] Place own_part() const { return Contribution(rank_); }
  // Where this rank's segment of a reduce-scatter goes.
  [[nodiscard]] Place reduced_part() const {
    return problem_.in_place ? Place{rank_, PeerBuffer::kSend, Start(rank_)}
                             : Place{rank_, PeerBuffer::kReceive, 0};
  }

  [[nodiscard]] MovePhase AllToAll() const {
    MovePhase phase;
    for (const int peer : RanksInTurn()) {
      if (problem_.own_stays && peer == rank_) continue;
      phase.push_back(pushes() ? Copy({rank_, PeerBuffer::kSend, Start(peer)},
                                      {peer, PeerBuffer::kReceive, Start(rank_)})
                               : Copy({peer, PeerBuffer::kSend, Start(rank_)},
                                      {rank_, PeerBuffer::kReceive, Start(peer)}));
    }
    return phase;
  }

  // Moves every rank's segment to every rank's receive buffer. `own`: the place of this rank's
  // segment.
  [[nodiscard]] MovePhase Gather(Place own, bool push) const {
    MovePhase phase;
    if (push) {
      Move move{{own}, {}, problem_.segment};
      for (const int peer : RanksInTurn()) {
        const Place to{peer, PeerBuffer::kReceive, Start(rank_)};
        if (to != own) move.to.push_back(to);
      }
      phase.push_back(move);
      return phase;
    }
    for (const int peer : RanksInTurn()) {
      Place from = own;
      from.rank = peer;
      if (own.buffer == PeerBuffer::kReceive) from.first = Start(peer);
      AddUnlessIdle(phase, Copy(from, {rank_, PeerBuffer::kReceive, Start(peer)}));
    }
    return phase;
  }

  // Writes the sum of all ranks' segment `rank_` to all of `to`.
  [[nodiscard]] std::vector<MovePhase> ReduceTo(std::vector<Place> to) const {
    Move sum{{}, std::move(to), problem_.segment};
    if (direction_ != Direction::kStore) {
      for (const int peer : RanksInTurn())
        sum.from.push_back({peer, PeerBuffer::kSend, Start(rank_)});
      return {{sum}};
    }
    MovePhase spread;
    for (const int peer : RanksInTurn()) {
      if (peer == rank_) continue;
      spread.push_back(Copy({rank_, PeerBuffer::kSend, Start(peer)},
                            {peer, PeerBuffer::kScratch, Start(rank_)}));
      sum.from.push_back({rank_, PeerBuffer::kScratch, Start(peer)});
    }
    sum.from.push_back({rank_, PeerBuffer::kSend, Start(rank_)});
    return {spread, {sum}};
  }

  [[nodiscard]] std::vector<MovePhase> AllReduce() const {
    std::vector<Place> everywhere;
    for (const int peer : RanksInTurn())
      everywhere.push_back({peer, PeerBuffer::kReceive, Start(rank_)});
    if (pushes()) return ReduceTo(everywhere);
    if (problem_.ranks == 2 && !problem_.in_place) return {OneShot()};
    const Place own{rank_, PeerBuffer::kReceive, Start(rank_)};
    std::vector<MovePhase> phases = ReduceTo({own});
    phases.push_back(Gather(own, false));
    return phases;
  }

  // With two ranks, reading the other's whole buffer takes the link as long as two halves, with one
  // wait fewer. Not in place, since the other rank may already have overwritten its buffer.
  [[nodiscard]] MovePhase OneShot() const {
    MovePhase phase;
    for (const int segment : RanksInTurn()) {
      Move sum{{}, {{rank_, PeerBuffer::kReceive, Start(segment)}}, problem_.segment};
      for (const int peer : RanksInTurn())
        sum.from.push_back({peer, PeerBuffer::kSend, Start(segment)});
      phase.push_back(sum);
    }
    return phase;
  }

  [[nodiscard]] std::vector<MovePhase> Broadcast() const {
    if (problem_.ranks <= 2) return {Direct()};
    switch (direction_) {
      case Direction::kLoad:
        return {Relay({rank_}), GatherShares()};
      case Direction::kStore:
        return Chain();
      default:
        return {Relay(Others())};
    }
  }

  // With two ranks, no rank has to forward data.
  [[nodiscard]] MovePhase Direct() const {
    MovePhase phase;
    for (const int segment : RanksInTurn()) {
      const Place from{problem_.root, PeerBuffer::kSend, Start(segment)};
      Move move{{from}, {}, problem_.segment};
      for (const int peer : RanksInTurn()) {
        const bool has_it = peer == problem_.root && problem_.in_place;
        const bool carries = pushes() ? is_root() : peer == rank_;
        if (carries && !has_it) move.to.push_back({peer, PeerBuffer::kReceive, Start(segment)});
      }
      if (!move.to.empty()) phase.push_back(move);
    }
    return phase;
  }

  // ---- Shares of a broadcast, one for each rank but the root

  [[nodiscard]] bool is_root() const { return rank_ == problem_.root; }
  // How many ranks a rank comes after the root, in ring order.
  [[nodiscard]] int PositionOf(int rank) const {
    return (rank + problem_.ranks - problem_.root) % problem_.ranks;
  }
  // The ranks that have a share, this one last.
  [[nodiscard]] std::vector<int> Others() const {
    std::vector<int> others = RanksInTurn();
    std::erase(others, problem_.root);
    return others;
  }
  [[nodiscard]] Move ShareOf(int rank, Place from) const {
    const auto [first, end] =
        PartOf({0, Start(problem_.ranks)}, problem_.word, PositionOf(rank) - 1, problem_.ranks - 1);
    from.first = first;
    return {{from}, {}, end - first};
  }
  static void AddTo(Move& move, int rank) {
    move.to.push_back({rank, PeerBuffer::kReceive, move.from[0].first});
  }

  // Every other rank reads its share from the root and writes it to `ranks`.
  [[nodiscard]] MovePhase Relay(const std::vector<int>& ranks) const {
    if (is_root()) return RootsOwn();
    Move move = ShareOf(rank_, {problem_.root, PeerBuffer::kSend, 0});
    for (const int rank : ranks) AddTo(move, rank);
    return {move};
  }
  [[nodiscard]] MovePhase RootsOwn() const {
    MovePhase phase;
    if (problem_.in_place) return phase;
    for (const int share : Others())
      AddTo(phase.emplace_back(ShareOf(share, {rank_, PeerBuffer::kSend, 0})), rank_);
    return phase;
  }
  [[nodiscard]] MovePhase GatherShares() const {
    MovePhase phase;
    for (const int peer : Others()) {
      if (peer == rank_ || is_root()) continue;
      AddTo(phase.emplace_back(ShareOf(peer, {peer, PeerBuffer::kReceive, 0})), rank_);
    }
    return phase;
  }

  // In phase p, the p-th rank after the root sends everything to the next.
  [[nodiscard]] std::vector<MovePhase> Chain() const {
    std::vector<MovePhase> phases(problem_.ranks - 1);
    const int position = PositionOf(rank_);
    if (position == problem_.ranks - 1) return phases;
    Move move{{{rank_, is_root() ? PeerBuffer::kSend : PeerBuffer::kReceive, 0}}, {}, count()};
    AddTo(move, (rank_ + 1) % problem_.ranks);
    if (is_root() && !problem_.in_place) AddTo(move, rank_);
    phases[position] = {move};
    return phases;
  }

  [[nodiscard]] int next() const { return (rank_ + problem_.shift) % problem_.ranks; }
  [[nodiscard]] int previous() const {
    return (rank_ + problem_.ranks - problem_.shift) % problem_.ranks;
  }
  [[nodiscard]] MovePhase ShiftRing() const {
    return {pushes() ? Copy({rank_, PeerBuffer::kSend, 0}, {next(), PeerBuffer::kReceive, 0})
                     : Copy({previous(), PeerBuffer::kSend, 0}, {rank_, PeerBuffer::kReceive, 0})};
  }

  // ---- Mail

  // The slot of what `sender` sends. A broadcast has only one sender.
  [[nodiscard]] long Slot(int sender) const {
    return problem_.operation == Operation::kBroadcast ? 0 : sender * count();
  }
  [[nodiscard]] Place MailTo(int peer) const { return {peer, PeerBuffer::kMail, Slot(rank_)}; }
  [[nodiscard]] Place MailFrom(int peer) const { return {rank_, PeerBuffer::kMail, Slot(peer)}; }

  [[nodiscard]] std::vector<MovePhase> Mail() const {
    const Place input{rank_, PeerBuffer::kSend, 0};
    const Place own_segment{rank_, PeerBuffer::kSend, Start(rank_)};
    const Place result{rank_, PeerBuffer::kReceive, 0};
    switch (problem_.operation) {
      case Operation::kAllToAll:
        return {MailOfSegments(), TakeSegments(own_segment)};
      case Operation::kAllGather:
        return {MailToAll(own_part()), TakeSegments(own_part())};
      case Operation::kReduceScatter:
        return {MailOfSegments(), {SumOfMail(own_segment, reduced_part())}};
      case Operation::kAllReduce:
        return {MailToAll(input), {SumOfMail(input, result)}};
      case Operation::kBroadcast:
        if (rank_ != problem_.root) return {{}, {Copy(MailFrom(problem_.root), result)}};
        return {MailToAll(input), problem_.in_place ? MovePhase{} : MovePhase{Copy(input, result)}};
      case Operation::kShiftRing:
        return {{Copy(input, MailTo(next()))}, {Copy(MailFrom(previous()), result)}};
      case Operation::kSend:
      case Operation::kReceive:
        break;
    }
    throw Error(kCollectivesOnly);
  }

  [[nodiscard]] MovePhase MailToAll(Place from) const {
    Move move{{from}, {}, count()};
    for (const int peer : RanksInTurn())
      if (peer != rank_) move.to.push_back(MailTo(peer));
    return {move};
  }
  [[nodiscard]] MovePhase MailOfSegments() const {
    MovePhase phase;
    for (const int peer : RanksInTurn())
      if (peer != rank_)
        phase.push_back(Copy({rank_, PeerBuffer::kSend, Start(peer)}, MailTo(peer)));
    return phase;
  }
  // `own`: the place of this rank's segment.
  [[nodiscard]] MovePhase TakeSegments(Place own) const {
    MovePhase phase;
    for (const int peer : RanksInTurn()) {
      if (peer == rank_ && problem_.own_stays) continue;
      AddUnlessIdle(phase, Copy(peer == rank_ ? own : MailFrom(peer),
                                {rank_, PeerBuffer::kReceive, Start(peer)}));
    }
    return phase;
  }
  [[nodiscard]] Move SumOfMail(Place own, Place to) const {
    Move sum{{}, {to}, count()};
    for (int peer = 0; peer < problem_.ranks; ++peer)
      sum.from.push_back(peer == rank_ ? own : MailFrom(peer));
    return sum;
  }

  PeerProblem problem_;
  Direction direction_;
  int rank_;
};

}  // namespace

std::vector<MovePhase> PeerPlan(const PeerProblem& problem, Direction direction, int rank) {
  return Planner(problem, direction, rank).Plan();
}

std::vector<MovePhase> InSteps(const std::vector<MovePhase>& phases,
                               const std::vector<Range>& pieces) {
  const PlanSteps steps{static_cast<int>(phases.size()), static_cast<int>(pieces.size())};
  std::vector<MovePhase> in_steps(steps.count());
  for (int step = 0; step < steps.count(); ++step) {
    for (int phase = steps.first_phase(step); phase < steps.end_phase(step); ++phase) {
      for (const Move& move : phases[phase]) {
        Move cut = Cut(move, pieces[step - phase]);
        if (cut.count > 0) in_steps[step].push_back(std::move(cut));
      }
    }
  }
  return in_steps;
}

std::vector<Range> PiecesByCopy(const PeerProblem& problem, int phases) {
  const Range all{0, MoveCount(problem, Direction::kStore)};
  if (phases == 1) return {all};
  return Adds(problem.operation) ? ShrinkingPieces(all, problem)
                                 : EqualPieces(all, problem, phases);
}

std::vector<MovePhase> MovesToPeers(std::vector<MovePhase> phases, int rank) {
  const auto is_own = [rank](const Place& place) { return place.rank == rank; };
  for (MovePhase& phase : phases) {
    for (Move& move : phase) {
      if (move.from.size() > 1) move.from = {*std::ranges::find_if(move.to, is_own)};
      std::erase_if(move.to, is_own);
    }
    std::erase_if(phase, [](const Move& move) { return move.to.empty(); });
  }
  return phases;
}

long MoveCount(const PeerProblem& problem, Direction direction) {
  const long whole = problem.ranks * problem.segment;
  const bool is_broadcast = problem.operation == Operation::kBroadcast;
  if (direction == Direction::kMail)
    return is_broadcast || problem.operation == Operation::kAllReduce ? whole : problem.segment;
  if (!is_broadcast || problem.ranks <= 2) return problem.segment;
  if (direction == Direction::kStore) return whole;
  const long shares = problem.ranks - 1;
  return (whole / problem.word + shares - 1) / shares * problem.word;
}

long ScratchCount(const PeerProblem& problem, Direction direction) {
  return Adds(problem.operation) && direction == Direction::kStore ? problem.ranks * problem.segment
                                                                   : 0;
}

}  // namespace overlapbench
