#include "kernels/softmax_regimes.h"

#include <array>

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
constexpr std::array<Line, 16> kLines = {{
    {64, 64, {kLanes, "4 lanes", 4, 1, 0}},
    {128, 128, {kLanes, "8 lanes", 8, 1, 0}},
    {256, 256, {kLanes, "16 lanes", 16, 1, 0}},
    {512, 512, {kLanes, "32 lanes", 32, 1, 0}},
    {1 * kKiB, 1 * kKiB, {kLanes, "32 lanes, 2 vectors", 32, 2, 0}},
    {1536, 1536, {kLanes, "32 lanes, 3 vectors", 32, 3, 0}},
    {2 * kKiB, 2 * kKiB, {kLanes, "32 lanes, 4 vectors", 32, 4, 0}},
    {3 * kKiB, 3 * kKiB, {kLanes, "32 lanes, 6 vectors", 32, 6, 0}},
    {4 * kKiB, 4 * kKiB, {kLanes, "32 lanes, 8 vectors", 32, 8, 0}},
    {16 * kKiB, 16 * kKiB, {kRegisters, "block, 4 vectors", 0, 4, 0}},
    // Up to here an SM holds two blocks, whose loads and stores overlap.
    {72 * kKiB, 72 * kKiB, {kRegisters, "block, 8 vectors", 0, 8, 0}},
    // A block's share must fit its shared memory. Large shares spread the cost of the blocks'
    // meeting, smaller ones leave room to read ahead.
    {176 * kKiB, 112 * kKiB, {kRing, "ring", 0, 4, 1}},
    // A single block an SM, whose loads are enough again; 2-byte elements have twice the
    // exponentials, which take too long where nothing overlaps them.
    {0, 128 * kKiB, {kRegisters, "block, 8 vectors", 0, 8, 0}},
    {416 * kKiB, 256 * kKiB, {kRing, "ring, cluster of 2", 0, 4, 2}},
    {832 * kKiB, 512 * kKiB, {kRing, "ring, cluster of 4", 0, 4, 4}},
    {0, 1024 * kKiB, {kRing, "ring, cluster of 8", 0, 4, 8}},
}};

// Rows that are not aligned have up to 14 elements around their whole vectors; the shortest have
// little else.
constexpr long kMostUnalignedColumns = 64;
constexpr SoftmaxRegime kUnaligned = {kElements, "16 lanes, 4 elements", 16, 4, 0};

}  // namespace

SoftmaxRegime SoftmaxRegimeOf(long columns, Element element, const SoftmaxTraits& traits) {
  if (!traits.aligned && columns <= kMostUnalignedColumns) return kUnaligned;
  const long element_bytes = static_cast<long>(SizeOf(element));
  for (const auto& line : kLines) {
    const long most_bytes = element_bytes == 2 ? line.most_bytes_of_2 : line.most_bytes_of_4;
    const bool exists = line.regime.kind != kRing || traits.clusters;
    if (exists && columns * element_bytes <= most_bytes) return line.regime;
  }
  return {kTwoPass, "two passes"};
}

}  // namespace overlapbench
