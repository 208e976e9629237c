#include <algorithm>
#include <cmath>

#include "device/launch.h"
#include "kernels/pack.h"
#include "kernels/token_steps.h"
#include "kernels/warp.h"

namespace overlapbench {
namespace {

constexpr int kStepThreads = 256;
constexpr long kStepTile = kStepThreads;  // packs

// The number of blocks of one warp, which take rows in turn.
int RowBlocks(long rows) {
  constexpr long kMost = 1 << 16;
  return static_cast<int>(std::min(rows, kMost));
}

// Calls use(i, pack i) for this thread's packs of a row.
template <Element kElement, typename Use>
OVERLAPBENCH_BODY inline void ForPacksOfRow(const Block& block, const Pack<kElement>* row,
                                            long packs, Use use) {
  constexpr int kAtATime = 16;
  for (Places places{block.thread, block.threads, packs}; places.Has(0);
       places.first = places[kAtATime]) {
    Pack<kElement> held[kAtATime];
    LoadTogether(places, held, [&](long at) { return row[at]; });
    for (int i = 0; i < kAtATime; ++i)
      if (places.Has(i)) use(places[i], held[i]);
  }
}

// One warp per row, in two passes: the second reads from a cache. One pass gives mean and variance,
// whose difference of squares loses nothing if the mean is small, as after residuals.
template <Element kElement>
struct LayerNormBody {
  static constexpr int kThreads = 32;
  static constexpr int kLanes = Pack<kElement>::kLanes;
  long rows;
  long packs;  // of a row
  float gain;
  const void* x;
  void* y;

  OVERLAPBENCH_BODY void operator()(const Block& block) const {
    for (long row = block.index; row < rows; row += block.count) Normalize(block, row * packs);
  }

  OVERLAPBENCH_BODY void Normalize(const Block& block, long first) const {
    const Pack<kElement>* const from = PacksOf<kElement>(x) + first;
    Pack<kElement>* const to = PacksOf<kElement>(y) + first;
    float sum = 0;
    float squares = 0;
    ForPacksOfRow(block, from, packs, [&](long /*at*/, const Pack<kElement>& pack) {
      for (int lane = 0; lane < kLanes; ++lane) {
        const float value = pack.Get(lane);
        sum += value;
        squares += value * value;
      }
    });
    const auto columns = static_cast<float>(packs * kLanes);
    const float mean = SumOverThreads(sum) / columns;
    const float variance = SumOverThreads(squares) / columns - mean * mean;
    const float factor = gain / sqrtf(variance + kNormEpsilon);
    ForPacksOfRow(block, from, packs, [&](long at, const Pack<kElement>& pack) {
      Pack<kElement> result{};
      for (int lane = 0; lane < kLanes; ++lane) result.Set(lane, (pack.Get(lane) - mean) * factor);
      to[at] = result;
    });
  }
};

// The same two passes: mean(g · z) follows from sums of g, x and their product.
template <Element kElement>
struct LayerNormGradientBody {
  static constexpr int kThreads = 32;
  static constexpr int kLanes = Pack<kElement>::kLanes;
  LayerNormGradient problem;

  OVERLAPBENCH_BODY void operator()(const Block& block) const {
    const long packs = problem.columns / kLanes;
    for (long row = block.index; row < problem.rows; row += block.count)
      Differentiate(block, row * packs, packs);
  }

  OVERLAPBENCH_BODY void Differentiate(const Block& block, long first, long packs) const {
    const Pack<kElement>* const x = PacksOf<kElement>(problem.x) + first;
    const Pack<kElement>* const g = PacksOf<kElement>(problem.of_result) + first;
    float sum = 0;
    float squares = 0;
    float gradients = 0;
    float products = 0;
    for (long i = block.thread; i < packs; i += block.threads) {
      const Pack<kElement> values = x[i];
      const Pack<kElement> of_values = g[i];
      for (int lane = 0; lane < kLanes; ++lane) {
        const float value = values.Get(lane);
        const float gradient = of_values.Get(lane);
        sum += value;
        squares += value * value;
        gradients += gradient;
        products += gradient * value;
      }
    }
    const auto columns = static_cast<float>(problem.columns);
    const float mean = SumOverThreads(sum) / columns;
    const float variance = SumOverThreads(squares) / columns - mean * mean;
    const float mean_gradient = SumOverThreads(gradients) / columns;
    const float inverse = 1 / sqrtf(variance + kNormEpsilon);
    const float along = (SumOverThreads(products) / columns - mean * mean_gradient) * inverse;
    const Pack<kElement>* const added = PacksOf<kElement>(problem.added) + first;
    Pack<kElement>* const to = PacksOf<kElement>(problem.result) + first;
    for (long i = block.thread; i < packs; i += block.threads) {
      const Pack<kElement> values = x[i];
      const Pack<kElement> of_values = g[i];
      const Pack<kElement> others = added[i];
      Pack<kElement> result{};
      for (int lane = 0; lane < kLanes; ++lane) {
        const float z = (values.Get(lane) - mean) * inverse;
        result.Set(lane, others.Get(lane) + problem.gain * inverse *
                                                (of_values.Get(lane) - mean_gradient - z * along));
      }
      to[i] = result;
    }
  }
};

template <Element kElement>
struct RowProductsBody {
  static constexpr int kThreads = 32;
  long rows;
  long packs;  // of a row
  const void* left;
  const void* right;
  float* sums;

  OVERLAPBENCH_BODY void operator()(const Block& block) const {
    for (long row = block.index; row < rows; row += block.count) {
      float sum = 0;
      for (long i = block.thread; i < packs; i += block.threads) {
        const Pack<kElement> a = PacksOf<kElement>(left)[row * packs + i];
        const Pack<kElement> b = PacksOf<kElement>(right)[row * packs + i];
        for (int lane = 0; lane < Pack<kElement>::kLanes; ++lane) sum += a.Get(lane) * b.Get(lane);
      }
      sum = SumOverThreads(sum);
      if (block.thread == 0) sums[row] = sum;
    }
  }
};

template <Element kElement>
struct DropoutMaskBody {
  static constexpr int kThreads = kStepThreads;
  long first;  // element
  long packs;
  std::uint32_t seed;
  void* mask;

  OVERLAPBENCH_BODY void operator()(const Block& block) const {
    block.ForEach<kStepTile>(packs, [this](long i) {
      Pack<kElement> result{};
      for (int lane = 0; lane < Pack<kElement>::kLanes; ++lane)
        result.Set(lane, DropoutMask(seed, first + i * Pack<kElement>::kLanes + lane));
      PacksOf<kElement>(mask)[i] = result;
    });
  }
};

template <Element kElement>
struct ResidualBody {
  static constexpr int kThreads = kStepThreads;
  long packs;
  const void* x;
  const void* mask;
  const void* added;
  void* y;

  OVERLAPBENCH_BODY void operator()(const Block& block) const {
    block.ForEach<kStepTile>(packs, [this](long i) {
      const Pack<kElement> left = x == nullptr ? Pack<kElement>{} : PacksOf<kElement>(x)[i];
      const Pack<kElement> factor = PacksOf<kElement>(mask)[i];
      const Pack<kElement> right = PacksOf<kElement>(added)[i];
      Pack<kElement> result{};
      for (int lane = 0; lane < Pack<kElement>::kLanes; ++lane)
        result.Set(lane, left.Get(lane) + factor.Get(lane) * right.Get(lane));
      PacksOf<kElement>(y)[i] = result;
    });
  }
};

}  // namespace

void EnqueueLayerNorm(Stream& stream, Element element, long rows, long columns, float gain,
                      const void* x, void* y) {
  ForElement(element, [&]<Element kElement>() {
    Launch(stream, RowBlocks(rows),
           LayerNormBody<kElement>{rows, columns / Pack<kElement>::kLanes, gain, x, y});
  });
}

void EnqueueLayerNormGradient(Stream& stream, const LayerNormGradient& problem) {
  ForElement(problem.element, [&]<Element kElement>() {
    Launch(stream, RowBlocks(problem.rows), LayerNormGradientBody<kElement>{problem});
  });
}

void EnqueueRowProducts(Stream& stream, Element element, long rows, long columns, const void* left,
                        const void* right, float* sums) {
  ForElement(element, [&]<Element kElement>() {
    Launch(stream, RowBlocks(rows),
           RowProductsBody<kElement>{rows, columns / Pack<kElement>::kLanes, left, right, sums});
  });
}

void EnqueueDropoutMask(Stream& stream, Element element, long first, long count, std::uint32_t seed,
                        void* mask) {
  ForElement(element, [&]<Element kElement>() {
    const long packs = count / Pack<kElement>::kLanes;
    Launch(stream, BlocksFor(packs, kStepTile),
           DropoutMaskBody<kElement>{first, packs, seed, mask});
  });
}

void EnqueueResidual(Stream& stream, Element element, long count, const void* x, const void* mask,
                     const void* added, void* y) {
  ForElement(element, [&]<Element kElement>() {
    const long packs = count / Pack<kElement>::kLanes;
    Launch(stream, BlocksFor(packs, kStepTile), ResidualBody<kElement>{packs, x, mask, added, y});
  });
}

}  // namespace overlapbench
