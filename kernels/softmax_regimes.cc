#include "kernels/softmax_regimes.h"

#include <span>

namespace overlapbench {
namespace {

using enum SoftmaxRegimeKind;
constexpr long kKiB = 1024;

// The first line whose limit a row does not exceed is the row's regime. Measured on one H200.
struct Line {
  long most_bytes_of_2;  // row length in bytes, for elements of 2 bytes
  long most_bytes_of_4;  // and of 4 bytes
  SoftmaxRegime regime;
};
constexpr Line kLines[] = {
    {64, 64, {kLanes, "4 lanes", 4, 1}},
    {128, 128, {kLanes, "8 lanes", 8, 1}},
    {256, 256, {kLanes, "16 lanes", 16, 1}},
    {512, 512, {kLanes, "32 lanes", 32, 1}},
    {1 * kKiB, 1 * kKiB, {kLanes, "32 lanes, 2 vectors", 32, 2}},
    {1536, 1536, {kLanes, "32 lanes, 3 vectors", 32, 3}},
    // What serves best turns on how many blocks, each of whole warps, an SM's registers make up.
    {1856, 0, {kExponentials, "exponentials, 4 vectors", 0, 4}},
    {2400, 0, {kExponentials, "exponentials, 6 vectors", 0, 6}},
    {2800, 0, {kExponentials, "exponentials, 3 vectors", 0, 3}},
    {3200, 0, {kExponentials, "exponentials, 4 vectors", 0, 4}},
    {3712, 0, {kExponentials, "exponentials, 5 vectors", 0, 5}},
    {0, 7680, {kExponentials, "exponentials, 2 vectors", 0, 2}},
    {8 * kKiB, 8 * kKiB, {kExponentials, "exponentials, 3 vectors", 0, 3}},
    {8448, 0, {kExponentials, "exponentials, 4 vectors", 0, 4}},
    {9 * kKiB, 0, {kExponentials, "exponentials, 3 vectors", 0, 3}},
    {10 * kKiB, 20 * kKiB, {kExponentials, "exponentials, 2 vectors", 0, 2}},
    {11 * kKiB, 0, {kExponentials, "exponentials, 3 vectors", 0, 3}},
    {12 * kKiB, 0, {kExponentials, "exponentials, 2 vectors", 0, 2}},
    {13568, 0, {kExponentials, "exponentials, 6 vectors", 0, 6}},
    {15 * kKiB, 48 * kKiB, {kExponentials, "exponentials, 3 vectors", 0, 3}},
    {18 * kKiB, 0, {kExponentials, "exponentials, 6 vectors", 0, 6}},
    {24 * kKiB, 0, {kExponentials, "exponentials, 4 vectors", 0, 4}},
    {30 * kKiB, 0, {kElements, "elements, 3 vectors", 0, 3}},
    {36 * kKiB, 0, {kExponentials, "exponentials, 4 vectors", 0, 4}},
    {48 * kKiB, 0, {kElements, "elements, 3 vectors", 0, 3}},
    {72 * kKiB, 72 * kKiB, {kElements, "elements, 6 vectors", 0, 6}},
    // From here on an SM would hold a single block, and nothing would overlap its work.
    {208 * kKiB, 0, {kParts, "parts, 5 vectors", 0, 5}},
    {0, 90 * kKiB, {kParts, "parts, 6 vectors", 0, 6}},
    // Here it does: 32 warps of float32 make up for it. Other types where the device lacks parts.
    {128 * kKiB, 128 * kKiB, {kElements, "elements, 8 vectors", 0, 8}},
    {1024 * kKiB, 0, {kParts, "parts, 4 vectors", 0, 4}},
    {0, 1024 * kKiB, {kParts, "parts, 6 vectors", 0, 6}},
};

// Short rows that are not aligned come first to these.
constexpr Line kUnalignedLines[] = {
    {32, 32, {kStaged, "stage, 4 lanes, 2 words", 4, 2}},
    {48, 48, {kStaged, "stage, 4 lanes, 3 words", 4, 3}},
    {64, 64, {kStaged, "stage, 4 lanes, 4 words", 4, 4}},
    {80, 80, {kStaged, "stage, 4 lanes, 5 words", 4, 5}},
    {96, 96, {kStaged, "stage, 4 lanes, 6 words", 4, 6}},
    {128, 128, {kStaged, "stage, 4 lanes, 8 words", 4, 8}},
    {160, 160, {kStaged, "stage, 8 lanes, 5 words", 8, 5}},
    {192, 192, {kStaged, "stage, 8 lanes, 6 words", 8, 6}},
    {256, 256, {kStaged, "stage, 8 lanes, 8 words", 8, 8}},
    {320, 320, {kStaged, "stage, 16 lanes, 5 words", 16, 5}},
    {384, 384, {kStaged, "stage, 16 lanes, 6 words", 16, 6}},
    {512, 512, {kStaged, "stage, 16 lanes, 8 words", 16, 8}},
    {640, 640, {kStaged, "stage, 32 lanes, 5 words", 32, 5}},
    {768, 768, {kStaged, "stage, 32 lanes, 6 words", 32, 6}},
    {896, 0, {kStaged, "stage, 32 lanes, 8 words", 32, 8}},
};

// The first of `lines` that holds the row, or null.
const SoftmaxRegime* Find(std::span<const Line> lines, long columns, Element element, bool parts) {
  const long element_bytes = static_cast<long>(SizeOf(element));
  for (const auto& line : lines) {
    const long most_bytes = element_bytes == 2 ? line.most_bytes_of_2 : line.most_bytes_of_4;
    const bool exists = line.regime.kind != kParts || parts;
    if (exists && columns * element_bytes <= most_bytes) return &line.regime;
  }
  return nullptr;
}

}  // namespace

SoftmaxRegime SoftmaxRegimeOf(long columns, Element element, const SoftmaxTraits& traits) {
  const SoftmaxRegime* regime = nullptr;
  if (!traits.aligned) regime = Find(kUnalignedLines, columns, element, traits.parts);
  if (regime == nullptr) regime = Find(kLines, columns, element, traits.parts);
  return regime != nullptr ? *regime : SoftmaxRegime{kTwoPass, "two passes"};
}

}  // namespace overlapbench
