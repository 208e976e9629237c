#include <algorithm>
#include <cmath>
#include <cstdint>

#include "device/launch.h"
#include "kernels/mlp.h"
#include "kernels/pack.h"
#include "workload/data.h"

namespace overlapbench {
namespace {

// Small blocks, with one pack per thread at a time, so that small matrices use many SMs too.
constexpr int kBlockThreads = 64;
constexpr long kMlpTile = kBlockThreads;

struct Gelu {
  float value;
  float derivative;
};

// (1 + tanh(u)) / 2 = 1 / (1 + exp(−2u)), and its derivative by u is 2·s·(1 − s).
OVERLAPBENCH_BODY inline Gelu GeluOf(float z) {
  constexpr float kRootTwoOverPi = 0.7978845608F;
  constexpr float kCubic = 0.044715F;
  const float u = kRootTwoOverPi * (z + kCubic * z * z * z);
  const float s = 1.0F / (1.0F + expf(-2.0F * u));
  const float inner = kRootTwoOverPi * (1.0F + 3.0F * kCubic * z * z);
  return {z * s, s + 2.0F * z * s * (1.0F - s) * inner};
}

template <Element kElement>
struct BiasGeluBody {
  static constexpr int kThreads = kBlockThreads;
  static constexpr int kLanes = Pack<kElement>::kLanes;
  void* z;
  const void* bias;
  void* x;
  long packs_a_row;
  long packs;

  OVERLAPBENCH_BODY void operator()(const Block& block) const {
    block.ForEach<kMlpTile>(packs, [this](long i) {
      Pack<kElement> sum = PacksOf<kElement>(z)[i];
      const Pack<kElement> added = PacksOf<kElement>(bias)[i % packs_a_row];
      Pack<kElement> result{};
      for (int lane = 0; lane < kLanes; ++lane) {
        const float value = sum.Get(lane) + added.Get(lane);
        sum.Set(lane, value);
        result.Set(lane, GeluOf(value).value);
      }
      PacksOf<kElement>(z)[i] = sum;
      if (x != nullptr) PacksOf<kElement>(x)[i] = result;
    });
  }
};

// A thread takes one pack of columns in `rows_a_tile` rows, and leaves the sum of what it wrote.
template <Element kElement>
struct GeluBackwardBody {
  static constexpr int kThreads = kBlockThreads;
  static constexpr int kLanes = Pack<kElement>::kLanes;
  void* gradient;
  const void* z;
  float* sums;  // tiles×columns
  long packs_a_row;
  long rows_a_tile;
  long rows;
  long tiles;

  OVERLAPBENCH_BODY void operator()(const Block& block) const {
    block.ForEach<kMlpTile>(tiles * packs_a_row, [this](long i) {
      const long tile = i / packs_a_row;
      const long column = i % packs_a_row;
      const long first = tile * rows_a_tile;
      const long end = first + rows_a_tile < rows ? first + rows_a_tile : rows;
      float sum[kLanes] = {};
      for (long row = first; row < end; ++row) AddRow(row * packs_a_row + column, sum);
      for (int lane = 0; lane < kLanes; ++lane) sums[i * kLanes + lane] = sum[lane];
    });
  }

  OVERLAPBENCH_BODY void AddRow(long index, float (&sum)[kLanes]) const {
    Pack<kElement> pack = PacksOf<kElement>(static_cast<const void*>(gradient))[index];
    if (z != nullptr) {
      const Pack<kElement> at = PacksOf<kElement>(z)[index];
      for (int lane = 0; lane < kLanes; ++lane)
        pack.Set(lane, pack.Get(lane) * GeluOf(at.Get(lane)).derivative);
      PacksOf<kElement>(gradient)[index] = pack;
    }
    for (int lane = 0; lane < kLanes; ++lane) sum[lane] += pack.Get(lane);
  }
};

struct AddTilesBody {
  static constexpr int kThreads = 32;
  static constexpr int kInFlight = 16;  // loads that overlap their latencies
  const float* sums;
  void* bias_gradient;
  Element element;
  long columns;
  long tiles;

  OVERLAPBENCH_BODY void operator()(const Block& block) const {
    block.ForEach<kThreads>(columns, [this](long column) {
      float sum = 0;
      for (long first = 0; first < tiles; first += kInFlight) {
        float values[kInFlight];
        for (int i = 0; i < kInFlight; ++i)
          values[i] = first + i < tiles ? sums[(first + i) * columns + column] : 0.0F;
        for (int i = 0; i < kInFlight; ++i) sum += values[i];
      }
      Store(bias_gradient, column, element, sum);
    });
  }
};

template <Element kElement>
struct UpdateBody {
  static constexpr int kThreads = kBlockThreads;
  static constexpr int kLanes = Pack<kElement>::kLanes;
  void* updated;
  const void* parameters;
  const void* gradients;
  long packs;
  float rate;

  OVERLAPBENCH_BODY void operator()(const Block& block) const {
    block.ForEach<kMlpTile>(packs, [this](long i) {
      const Pack<kElement> before = PacksOf<kElement>(parameters)[i];
      const Pack<kElement> gradient = PacksOf<kElement>(gradients)[i];
      Pack<kElement> after{};
      for (int lane = 0; lane < kLanes; ++lane)
        after.Set(lane, before.Get(lane) - rate * gradient.Get(lane));
      PacksOf<kElement>(updated)[i] = after;
    });
  }
};

struct ParametersBody {
  static constexpr int kThreads = kBlockThreads;
  void* parameters;
  Element element;
  long weights;
  long count;
  float weight_scale;

  OVERLAPBENCH_BODY void operator()(const Block& block) const {
    block.ForEach<kMlpTile>(count, [this](long i) {
      const float value = i < weights ? weight_scale * RandomFraction(kMlpWeightSeed, i)
                                      : RandomFraction(kMlpBiasSeed, i - weights);
      Store(parameters, i, element, value);
    });
  }
};

float NearestPowerOfTwo(double value) {
  return static_cast<float>(std::exp2(std::round(std::log2(value))));
}

struct Tiling {
  long rows_a_tile;
  long tiles;
};
// Few rows a tile, so that a small matrix has many, but not more tiles than are quickly summed.
Tiling TilingOf(long rows) {
  constexpr long kLeastRows = 4;
  constexpr long kMostTiles = 128;
  const long rows_a_tile = std::max(kLeastRows, (rows + kMostTiles - 1) / kMostTiles);
  return {rows_a_tile, (rows + rows_a_tile - 1) / rows_a_tile};
}

}  // namespace

float MlpProblem::weight_scale() const {
  return NearestPowerOfTwo(2 / std::sqrt(static_cast<double>(dim)));
}

float MlpProblem::rate() const {
  const auto width = static_cast<double>(dim);
  return NearestPowerOfTwo(1 / (2 * width * std::sqrt(static_cast<double>(batch))));
}

double MlpProblem::flops() const {
  const double product = 2.0 * static_cast<double>(row_count()) * static_cast<double>(dim);
  return product * products();
}

void EnqueueBiasGelu(Stream& stream, Element element, const MatrixSize& size, void* z,
                     const void* bias, void* x) {
  ForElement(element, [&]<Element kElement>() {
    const long packs_a_row = size.columns / Pack<kElement>::kLanes;
    const long packs = size.rows * packs_a_row;
    Launch(stream, BlocksFor(packs, kMlpTile),
           BiasGeluBody<kElement>{z, bias, x, packs_a_row, packs});
  });
}

std::size_t BiasScratchBytes(const MatrixSize& size) {
  return TilingOf(size.rows).tiles * size.columns * sizeof(float);
}

void EnqueueGeluBackward(Stream& stream, Element element, const MatrixSize& size, void* gradient,
                         const void* z, void* bias_gradient, void* scratch) {
  const auto [rows_a_tile, tiles] = TilingOf(size.rows);
  auto* sums = static_cast<float*>(scratch);
  ForElement(element, [&, rows_a_tile = rows_a_tile, tiles = tiles]<Element kElement>() {
    const long packs_a_row = size.columns / Pack<kElement>::kLanes;
    Launch(
        stream, BlocksFor(tiles * packs_a_row, kMlpTile),
        GeluBackwardBody<kElement>{gradient, z, sums, packs_a_row, rows_a_tile, size.rows, tiles});
  });
  Launch(stream, BlocksFor(size.columns, AddTilesBody::kThreads),
         AddTilesBody{sums, bias_gradient, element, size.columns, tiles});
}

void EnqueueUpdate(Stream& stream, Element element, long count, void* updated,
                   const void* parameters, const void* gradients, float rate) {
  ForElement(element, [&]<Element kElement>() {
    const long packs = count / Pack<kElement>::kLanes;
    Launch(stream, BlocksFor(packs, kMlpTile),
           UpdateBody<kElement>{updated, parameters, gradients, packs, rate});
  });
}

void EnqueueMlpParameters(Stream& stream, Element element, const MlpProblem& problem,
                          void* parameters) {
  const long count = problem.parameter_count();
  Launch(
      stream, BlocksFor(count, kMlpTile),
      ParametersBody{parameters, element, problem.weight_count(), count, problem.weight_scale()});
}

}  // namespace overlapbench
