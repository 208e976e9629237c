#include <algorithm>
#include <type_traits>

#include "device/launch.h"
#include "kernels/expert_rows.h"
#include "kernels/float_io.h"

namespace overlapbench {
namespace {

constexpr int kRowThreads = 128;

// What a thread reads or writes at once: 16 bytes.
template <Element kElement>
struct alignas(16) RowPack {
  using Stored = std::conditional_t<kElement == Element::kFloat32, float, std::uint16_t>;
  static constexpr int kLanes = 16 / sizeof(Stored);
  Stored values[kLanes];
};

template <Element kElement>
struct RowCopyBody {
  static constexpr int kThreads = kRowThreads;
  RowPack<kElement>* output;
  const RowPack<kElement>* input;
  const std::int32_t* source;
  long packs;  // of a row
  long rows;

  OVERLAPBENCH_BODY void operator()(const Block& block) const {
    block.ForEach<kRowThreads>(rows * packs, [this](long i) {
      const long from = source[i / packs];
      output[i] = from < 0 ? RowPack<kElement>{} : input[from * packs + i % packs];
    });
  }
};

template <Element kElement>
struct RowSumBody {
  static constexpr int kThreads = kRowThreads;
  static constexpr int kLanes = RowPack<kElement>::kLanes;
  RowPack<kElement>* output;
  const RowPack<kElement>* input;
  const RowPack<kElement>* more;
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
        const RowPack<kElement>* const from =
            row < input_rows ? input + row * packs : more + (row - input_rows) * packs;
        const RowPack<kElement> pack = from[i % packs];
        for (int lane = 0; lane < kLanes; ++lane)
          sums[lane] += weight[term] * LoadFloat(&pack.values[lane], 0, kElement);
      }
      RowPack<kElement> stored{};
      for (int lane = 0; lane < kLanes; ++lane)
        StoreRounded(&stored.values[lane], 0, kElement, sums[lane]);
      output[i] = stored;
    });
  }
};

int RowBlocks(long packs) {
  constexpr long kMostBlocks = 8192;
  return static_cast<int>(std::clamp((packs + kRowThreads - 1) / kRowThreads, 1L, kMostBlocks));
}

// launch.operator()<element>()
template <class LaunchRows>
void ForRowElement(Element element, const LaunchRows& launch) {
  if (element == Element::kFloat32) return launch.template operator()<Element::kFloat32>();
  if (element == Element::kFloat16) return launch.template operator()<Element::kFloat16>();
  launch.template operator()<Element::kBfloat16>();
}

}  // namespace

void EnqueueRowCopy(Stream& stream, const RowCopy& copy) {
  ForRowElement(copy.element, [&]<Element kElement>() {
    using Pack = RowPack<kElement>;
    const long packs = copy.columns / Pack::kLanes;
    Launch(
        stream, RowBlocks(copy.rows * packs),
        RowCopyBody<kElement>{static_cast<Pack*>(copy.output), static_cast<const Pack*>(copy.input),
                              copy.source, packs, copy.rows});
  });
}

void EnqueueRowSum(Stream& stream, const RowSum& sum) {
  ForRowElement(sum.element, [&]<Element kElement>() {
    using Pack = RowPack<kElement>;
    const long packs = sum.columns / Pack::kLanes;
    Launch(stream, RowBlocks(sum.rows * packs),
           RowSumBody<kElement>{static_cast<Pack*>(sum.output), static_cast<const Pack*>(sum.input),
                                static_cast<const Pack*>(sum.more), sum.source, sum.weight, packs,
                                sum.input_rows, sum.rows, sum.terms});
  });
}

}  // namespace overlapbench
