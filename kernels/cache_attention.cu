#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "device/launch.h"
#include "kernels/attention.h"
#include "kernels/cache_attention.h"
#include "kernels/pack.h"
#include "kernels/warp.h"
#include "ranks/ranks.h"
#include "workload/tensor_step.h"

namespace overlapbench {
namespace {

constexpr long kDecodeDim = kAttentionDim;
// Of a piece: its largest score, the sum of its weights, and its weighted sum of values.
constexpr long kPieceFloats = kDecodeDim + 2;
constexpr int kDecodeThreads = 32;
constexpr long kMostDecodeBlocks = 1L << 20;
constexpr float kNoScore = -1e30F;  // less than any

// A row of a head has kPacks packs, which so many threads share: a team. The rest of a warp takes
// other positions.
template <Element kElement>
constexpr int kDecodePacks = kDecodeDim / Pack<kElement>::kLanes;

struct DecodePieces {
  const void* queries = nullptr;
  const void* cache = nullptr;
  float* pieces = nullptr;
  long rows = 0;  // heads of all tokens
  long heads = 0;
  long context = 0;
  long splits = 0;  // of a row's positions, each a piece
};

template <Element kElement>
struct AttendToCacheBody {
  static constexpr int kThreads = kDecodeThreads;
  static constexpr int kLanes = Pack<kElement>::kLanes;
  static constexpr int kPacks = kDecodePacks<kElement>;
  static constexpr int kAtATime = 8;  // positions in flight
#ifdef __CUDA_ARCH__
  static constexpr int kOwnPacks = 1;
#else
  static constexpr int kOwnPacks = kPacks;
#endif
  DecodePieces problem;

  struct Team {
    int members;
    int count;
    int index;
    int member;
  };
  struct Sums {
    float most = kNoScore;
    float weights = 0;
    float values[kOwnPacks * kLanes] = {};
  };

  OVERLAPBENCH_BODY void operator()(const Block& block) const {
    const int members = block.threads < kPacks ? block.threads : kPacks;
    const Team team{members, block.threads / members, block.thread / members,
                    block.thread % members};
    for (long item = block.index; item < problem.rows * problem.splits; item += block.count)
      Attend(team, item / problem.splits, item % problem.splits);
  }

  OVERLAPBENCH_BODY void Attend(const Team& team, long row, long split) const {
    const long token = row / problem.heads;
    const long head = row % problem.heads * kPacks;
    const long inner = problem.heads * kPacks;
    const auto* const query = PacksOf<kElement>(problem.queries) + token * 3 * inner + head;
    const auto* const keys =
        PacksOf<kElement>(problem.cache) + token * problem.context * 2 * inner + head;
    float q[kOwnPacks * kLanes];
    for (int i = 0; i < kOwnPacks; ++i) {
      const Pack<kElement> pack = query[team.member + i * team.members];
      for (int lane = 0; lane < kLanes; ++lane)
        q[i * kLanes + lane] = pack.Get(lane) * kAttentionScale;
    }
    const long share = (problem.context + problem.splits - 1) / problem.splits;
    const long end = share * (split + 1) < problem.context ? share * (split + 1) : problem.context;
    Sums sums;
    // All threads of a warp take the same number of rounds, because they sum together.
    for (long first = share * split; first < end; first += kAtATime * team.count)
      AddPositions(team, q, keys, {first + team.index, team.count, end}, sums);
    for (int other = 1; other < team.count; other *= 2) AddTeam(other * team.members, sums);
    if (team.index > 0) return;
    float* const piece = problem.pieces + (row * problem.splits + split) * kPieceFloats;
    if (team.member == 0) {
      piece[0] = sums.most;
      piece[1] = sums.weights;
    }
    for (int i = 0; i < kOwnPacks; ++i)
      for (int lane = 0; lane < kLanes; ++lane)
        piece[2 + (team.member + i * team.members) * kLanes + lane] =
            sums.values[i * kLanes + lane];
  }

  OVERLAPBENCH_BODY void AddTeam(int lanes, Sums& sums) const {
    const float other = Across(sums.most, lanes);
    const float most = fmaxf(sums.most, other);
    const float kept = expf(sums.most - most);
    const float added = expf(other - most);
    sums.most = most;
    sums.weights = kept * sums.weights + added * Across(sums.weights, lanes);
    for (float& value : sums.values) value = kept * value + added * Across(value, lanes);
  }

  // What this thread takes of a position.
  struct KeyAndValue {
    Pack<kElement> key[kOwnPacks];
    Pack<kElement> value[kOwnPacks];
  };
  OVERLAPBENCH_BODY void AddPositions(const Team& team, const float (&q)[kOwnPacks * kLanes],
                                      const Pack<kElement>* keys, const Places& positions,
                                      Sums& sums) const {
    const long inner = problem.heads * kPacks;
    KeyAndValue held[kAtATime];
    LoadTogether(positions, held, [&](long position) {
      KeyAndValue loaded;
      const Pack<kElement>* const key = keys + position * 2 * inner + team.member;
      for (int own = 0; own < kOwnPacks; ++own) {
        loaded.key[own] = key[own * team.members];
        loaded.value[own] = key[inner + own * team.members];
      }
      return loaded;
    });
    float scores[kAtATime];
    float most = sums.most;
    for (int i = 0; i < kAtATime; ++i) {
      float score = 0;
      for (int own = 0; own < kOwnPacks; ++own)
        for (int lane = 0; lane < kLanes; ++lane)
          score += q[own * kLanes + lane] * held[i].key[own].Get(lane);
      scores[i] = SumOverThreads<kPacks>(score);
      most = fmaxf(most, scores[i]);
    }
    const float kept = expf(sums.most - most);
    sums.most = most;
    sums.weights *= kept;
    for (float& value : sums.values) value *= kept;
    for (int i = 0; i < kAtATime; ++i) {
      const float weight = positions.Has(i) ? expf(scores[i] - most) : 0;
      sums.weights += weight;
      for (int own = 0; own < kOwnPacks; ++own)
        for (int lane = 0; lane < kLanes; ++lane)
          sums.values[own * kLanes + lane] += weight * held[i].value[own].Get(lane);
    }
  }
};

// A warp takes kColumns of a row, so that a thread may hold many pieces (BlocksPerMultiprocessor).
struct AddPiecesBody {
  static constexpr int kThreads = kDecodeThreads;
  static constexpr long kColumns = kDecodeThreads;
  static constexpr long kWarps = kDecodeDim / kColumns;  // of a row
  const float* pieces;
  void* results;
  Element element;
  long rows;
  long count;  // of a row

  OVERLAPBENCH_BODY void operator()(const Block& block) const {
    for (long item = block.index; item < rows * kWarps; item += block.count) {
      const float* const of_row = pieces + item / kWarps * count * kPieceFloats;
      const long first = item % kWarps * kColumns;
      for (long i = first + block.thread; i < first + kColumns; i += block.threads)
        Store(results, item / kWarps * kDecodeDim + i, element, Sum(of_row, i));
    }
  }

  struct Piece {
    float most = kNoScore;
    float weights = 0;
    float value = 0;
  };
  // One pass, because a row has few threads, which wait for their loads.
  [[nodiscard]] OVERLAPBENCH_BODY float Sum(const float* of_row, long column) const {
    constexpr int kAtATime = 16;
    float most = kNoScore;
    float weights = 0;
    float values = 0;
    for (Places places{0, 1, count}; places.Has(0); places.first = places[kAtATime]) {
      Piece pieces[kAtATime];
      LoadTogether(places, pieces, [&](long i) {
        const float* const piece = of_row + i * kPieceFloats;
        return Piece{piece[0], piece[1], piece[2 + column]};
      });
      const float before = most;
      for (int i = 0; i < kAtATime; ++i) {
        if (!places.Has(i)) pieces[i] = Piece{};
        most = fmaxf(most, pieces[i].most);
      }
      const float kept = expf(before - most);
      weights *= kept;
      values *= kept;
      for (int i = 0; i < kAtATime; ++i) {
        const float factor = expf(pieces[i].most - most);
        weights += factor * pieces[i].weights;
        values += factor * pieces[i].value;
      }
    }
    return values / weights;
  }
};

// As many warps as all SMs hold at once (BlocksPerMultiprocessor), of at least kLeastPositions
// each: a few more would take as long as twice as many.
long DecodeSplits(const Device& device, long rows, long context) {
  constexpr long kWarpsPerMultiprocessor = 16;
  constexpr long kLeastPositions = 32;
  const long warps = kWarpsPerMultiprocessor * device.info().multiprocessors;
  return std::clamp(warps / rows, 1L, std::max(1L, context / kLeastPositions));
}

// One element of the result. The cache is what it was filled with, which no other work changes.
ExpectedValue ExpectedOfCache(const CacheAttention& attention, int rank, HeldRows& held, long row,
                              long column) {
  const long inner = attention.results->shape().columns;
  const long head = column / kDecodeDim * kDecodeDim;
  const long first = row * attention.context();
  const std::vector<float>& query = held.Row(attention.queries, row);
  std::vector<double> scores(attention.context());
  for (long position = 0; position < std::ssize(scores); ++position)
    for (long i = head; i < head + kDecodeDim; ++i)
      scores[position] += query[i] * attention.cache->Expected(rank, first + position, i);
  return WeightedSum(Probabilities(std::move(scores)), [&](long position) {
    return attention.cache->Expected(rank, first + position, inner + column);
  });
}

void EnqueueDecode(Stream& stream, const CacheAttention& attention, long first, long tokens,
                   const DecodePieces& whole) {
  DecodePieces part = whole;
  const long first_row = first * whole.heads;
  part.queries = attention.queries->Row(first);
  part.cache = attention.cache->Row(first * whole.context);
  part.pieces += first_row * whole.splits * kPieceFloats;
  part.rows = tokens * whole.heads;
  const Element element = attention.results->shape().element;
  const auto blocks = [](long count) {
    return static_cast<int>(std::min(count, kMostDecodeBlocks));
  };
  ForElement(element, [&]<Element kElement>() {
    Launch(stream, blocks(part.rows * part.splits), AttendToCacheBody<kElement>{part});
  });
  Launch(
      stream, blocks(part.rows),
      AddPiecesBody{part.pieces, attention.results->Row(first), element, part.rows, part.splits});
}

}  // namespace

std::size_t CacheAttentionBytes(const Device& device, const TensorShape& results, long context) {
  const long rows = results.rows * results.columns / kDecodeDim;
  return rows * DecodeSplits(device, rows, context) * kPieceFloats * sizeof(float);
}

std::unique_ptr<Workload> MakeCacheAttention(const Machine& machine,
                                             const CacheAttention& attention) {
  const TensorShape& shape = attention.results->shape();
  const long context = attention.context();
  const long heads = shape.columns / kDecodeDim;
  const auto pieces = std::make_shared<Buffer>(machine.device.Allocate(
      CacheAttentionBytes(machine.device, shape, context), MemoryKind::kDevice));
  const DecodePieces whole{.pieces = static_cast<float*>(pieces->data()),
                           .heads = heads,
                           .context = context,
                           .splits = DecodeSplits(machine.device, shape.rows * heads, context)};
  constexpr double kOperations = 4;  // of a query and a position: two products, two sums
  TensorStep step = StepOn({attention.queries, attention.cache}, attention.results, attention.seed);
  step.cost.flops =
      kOperations * static_cast<double>(attention.results->count()) * static_cast<double>(context);
  step.enqueue = [attention, whole, pieces](Stream& stream, long first, long tokens) {
    EnqueueDecode(stream, attention, first, tokens, whole);
  };
  step.error = [element = shape.element, context] { return AttentionError(element, context); };
  step.expected = [attention, rank = machine.ranks.rank()](HeldRows& held, long row, long column) {
    return ExpectedOfCache(attention, rank, held, row, column);
  };
  return MakeTensorStep(machine, step);
}

}  // namespace overlapbench
