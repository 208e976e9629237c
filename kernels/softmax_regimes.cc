#include "kernels/softmax_regimes.h"

#include <limits>
#include <span>

namespace overlapbench {
namespace {

using enum SoftmaxRegimeKind;
constexpr long kKiB = 1024;
constexpr long kMiB = 1024 * kKiB;
constexpr long kNoLimit = std::numeric_limits<long>::max();

// A row's regime is the first line whose limit the row does not exceed. Measured on one H200, rows
// of more than 4 MiB on one H100.
struct Line {
  long most_bytes_of_2;  // row length in bytes, for elements of 2 bytes
  long most_bytes_of_4;  // and of 4 bytes
  SoftmaxRegime regime;  // kind, lanes, units
};
constexpr Line kLines[] = {
    {64, 64, {kLanes, 4, 1}},
    {128, 128, {kLanes, 8, 1}},
    {256, 256, {kLanes, 16, 1}},
    {512, 512, {kLanes, 32, 1}},
    {1 * kKiB, 1 * kKiB, {kLanes, 32, 2}},
    {1536, 1536, {kLanes, 32, 3}},
    // The best regime depends on how many blocks, each of whole warps, fit an SM's registers.
    {1856, 0, {kExponentials, 0, 4}},
    {2400, 0, {kExponentials, 0, 6}},
    {2800, 0, {kExponentials, 0, 3}},
    {3200, 0, {kExponentials, 0, 4}},
    {3712, 0, {kExponentials, 0, 5}},
    {0, 7680, {kExponentials, 0, 2}},
    {8 * kKiB, 8 * kKiB, {kExponentials, 0, 3}},
    {8448, 0, {kExponentials, 0, 4}},
    {9 * kKiB, 0, {kExponentials, 0, 3}},
    {10 * kKiB, 20 * kKiB, {kExponentials, 0, 2}},
    {11 * kKiB, 0, {kExponentials, 0, 3}},
    {12 * kKiB, 0, {kExponentials, 0, 2}},
    {13568, 0, {kExponentials, 0, 6}},
    {15 * kKiB, 48 * kKiB, {kExponentials, 0, 3}},
    {18 * kKiB, 0, {kExponentials, 0, 6}},
    {24 * kKiB, 0, {kExponentials, 0, 4}},
    {30 * kKiB, 0, {kElements, 0, 3}},
    {36 * kKiB, 0, {kExponentials, 0, 4}},
    {48 * kKiB, 0, {kElements, 0, 3}},
    {72 * kKiB, 72 * kKiB, {kElements, 0, 6}},
    // Above this length an SM would hold a single block, and nothing would overlap its work.
    {208 * kKiB, 0, {kParts, 0, 5}},
    {0, 90 * kKiB, {kParts, 0, 6}},
    // Even so, 32 warps of float32 are faster here. Other types come here if the device lacks
    // parts.
    {128 * kKiB, 128 * kKiB, {kElements, 0, 8}},
    {4 * kMiB, 0, {kParts, 0, 4}},
    {0, 4 * kMiB, {kParts, 0, 6}},
    // The SMs hold only two or three of these rows at a time.
    {kNoLimit, kNoLimit, {kParts, 0, 3}},
};

// For unaligned rows, these lines come first.
constexpr Line kUnalignedLines[] = {
    {32, 32, {kStaged, 4, 2}},    {48, 48, {kStaged, 4, 3}},    {64, 64, {kStaged, 4, 4}},
    {80, 80, {kStaged, 4, 5}},    {96, 96, {kStaged, 4, 6}},    {128, 128, {kStaged, 4, 8}},
    {160, 160, {kStaged, 8, 5}},  {192, 192, {kStaged, 8, 6}},  {256, 256, {kStaged, 8, 8}},
    {320, 320, {kStaged, 16, 5}}, {384, 384, {kStaged, 16, 6}}, {512, 512, {kStaged, 16, 8}},
    {640, 640, {kStaged, 32, 5}}, {768, 768, {kStaged, 32, 6}}, {896, 0, {kStaged, 32, 8}},
};

// The first of `lines` that holds the row, or null.
const SoftmaxRegime* Find(std::span<const Line> lines, long columns, Element element,
                          long longest_parts_bytes) {
  const long element_bytes = static_cast<long>(SizeOf(element));
  const long row_bytes = columns * element_bytes;
  for (const auto& line : lines) {
    const long most_bytes = element_bytes == 2 ? line.most_bytes_of_2 : line.most_bytes_of_4;
    const bool exists = line.regime.kind != kParts || row_bytes <= longest_parts_bytes;
    if (exists && row_bytes <= most_bytes) return &line.regime;
  }
  return nullptr;
}

}  // namespace

SoftmaxRegime SoftmaxRegimeOf(long columns, Element element, const SoftmaxTraits& traits) {
  const SoftmaxRegime* regime = nullptr;
  if (!traits.aligned) regime = Find(kUnalignedLines, columns, element, traits.longest_parts_bytes);
  if (regime == nullptr) regime = Find(kLines, columns, element, traits.longest_parts_bytes);
  return regime != nullptr ? *regime : SoftmaxRegime{};
}

bool SoftmaxNeedsWorkspace(long columns, Element element) {
  constexpr SoftmaxTraits kWithParts;
  constexpr SoftmaxTraits kWithoutParts{true, 0};
  // Rows that are not aligned differ only where they are short.
  return UsesWorkspace(SoftmaxRegimeOf(columns, element, kWithParts).kind) ||
         UsesWorkspace(SoftmaxRegimeOf(columns, element, kWithoutParts).kind);
}

std::string ToString(const SoftmaxRegime& regime) {
  const std::string lanes = std::to_string(regime.lanes) + " lanes";
  const std::string units = std::to_string(regime.units);
  switch (regime.kind) {
    case kStaged:
      return "stage, " + lanes + ", " + units + " words";
    case kLanes:
      return regime.units == 1 ? lanes : lanes + ", " + units + " vectors";
    case kExponentials:
      return "exponentials, " + units + " vectors";
    case kElements:
      return "elements, " + units + " vectors";
    case kParts:
      return "parts, " + units + " vectors";
    case kSpread:
      break;
  }
  return "spread";
}

}  // namespace overlapbench
