#include "device/launch.h"
#include "kernels/expert_rows.h"
#include "kernels/pack.h"

namespace overlapbench {
namespace {

constexpr int kRowThreads = 128;

template <Element kElement>
struct RowCopyBody {
  static constexpr int kThreads = kRowThreads;
  Pack<kElement>* output;
  const Pack<kElement>* input;
  const std::int32_t* source;
  long packs;  // of a row
  long rows;

  OVERLAPBENCH_BODY void operator()(const Block& block) const {
    block.ForEach<kRowThreads>(rows * packs, [this](long i) {
      const long from = source[i / packs];
      output[i] = from < 0 ? Pack<kElement>{} : input[from * packs + i % packs];
    });
  }
};

template <Element kElement>
struct RowSumBody {
  static constexpr int kThreads = kRowThreads;
  static constexpr int kLanes = Pack<kElement>::kLanes;
  Pack<kElement>* output;
  const Pack<kElement>* input;
  const Pack<kElement>* more;
  const std::int32_t* source;
  const float* weight;
  long packs;  // of a row
  long input_rows;
  long rows;
  long terms;

  OVERLAPBENCH_BODY void operator()(const Block& block) const {
    block.ForEach<kRowThreads>(rows * packs, [this](long i) {
      const long first = i / packs * terms;
      float sums[kLanes] = {};
      for (long term = first; term < first + terms; ++term) {
        const long row = source[term];
        const Pack<kElement>* const from =
            row < input_rows ? input + row * packs : more + (row - input_rows) * packs;
        const Pack<kElement> pack = from[i % packs];
        for (int lane = 0; lane < kLanes; ++lane) sums[lane] += weight[term] * pack.Get(lane);
      }
      Pack<kElement> stored{};
      for (int lane = 0; lane < kLanes; ++lane) stored.Set(lane, sums[lane]);
      output[i] = stored;
    });
  }
};

}  // namespace

void EnqueueRowCopy(Stream& stream, const RowCopy& copy) {
  ForElement(copy.element, [&]<Element kElement>() {
    const long packs = copy.columns / Pack<kElement>::kLanes;
    Launch(stream, BlocksFor(copy.rows * packs, kRowThreads),
           RowCopyBody<kElement>{PacksOf<kElement>(copy.output), PacksOf<kElement>(copy.input),
                                 copy.source, packs, copy.rows});
  });
}

void EnqueueRowSum(Stream& stream, const RowSum& sum) {
  ForElement(sum.element, [&]<Element kElement>() {
    const long packs = sum.columns / Pack<kElement>::kLanes;
    Launch(stream, BlocksFor(sum.rows * packs, kRowThreads),
           RowSumBody<kElement>{PacksOf<kElement>(sum.output), PacksOf<kElement>(sum.input),
                                PacksOf<kElement>(sum.more), sum.source, sum.weight, packs,
                                sum.input_rows, sum.rows, sum.terms});
  });
}

}  // namespace overlapbench
