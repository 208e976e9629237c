#include "kernels/softmax_regimes.h"

#include <array>
#include <limits>
#include <span>

namespace overlapbench {
namespace {

using enum SoftmaxRegimeKind;
constexpr long kKiB = 1024;
constexpr long kMiB = 1024 * kKiB;

// A row's regime is the first line whose limit the row does not exceed. What lanes hold is derived.
// All other limits were measured on one H200, those of rows of more than 4 MiB on one H100: the
// percentages are of a copy of the same bytes.
struct Line {
  long most_bytes;  // of a row
  SoftmaxRegime regime;
};
constexpr Line Lanes(int lanes, int vectors) {
  return {16L * lanes * vectors, {kLanes, lanes, vectors}};
}
constexpr Line Kept(long most_bytes, int vectors) {
  return {most_bytes, {kExponentials, 0, vectors}};
}
constexpr Line Held(long most_bytes, int vectors) { return {most_bytes, {kElements, 0, vectors}}; }
constexpr Line Parts(long most_bytes, int vectors) { return {most_bytes, {kParts, 0, vectors}}; }

// The fewest lanes, and then vectors, that hold the row: empty places cost as much as full ones.
// The edges of a row that is not aligned take a lane each. Longer rows were faster in a block.
constexpr Line kShort[] = {Lanes(4, 1),  Lanes(8, 1),  Lanes(16, 1),
                           Lanes(32, 1), Lanes(32, 2), Lanes(32, 3)};

// A block holds the row, in a warp for every 512 bytes times the vectors of a thread. How well such
// blocks fill an SM's registers and threads jumps from length to length, and with it the fastest
// number of vectors. The best was up to 2 % faster than its neighbours.
//
// Exponentials are computed once, but take four bytes of registers each. 2-byte elements are held
// themselves, and their exponentials computed twice, where that makes room for one more block.
constexpr Line kBlocksOf2[] = {
    Kept(1856, 4),      Kept(2400, 6),      Kept(2800, 3),      Kept(3200, 4),
    Kept(3712, 5),      Kept(8 * kKiB, 3),  Kept(8448, 4),      Kept(9 * kKiB, 3),
    Kept(10 * kKiB, 2), Kept(11 * kKiB, 3), Kept(12 * kKiB, 2), Kept(13568, 6),
    Kept(15 * kKiB, 3), Kept(18 * kKiB, 6), Kept(24 * kKiB, 4), Held(30 * kKiB, 3),
    Kept(36 * kKiB, 4), Held(48 * kKiB, 3), Held(72 * kKiB, 6),
};
constexpr Line kBlocksOf4[] = {
    Kept(7680, 2), Kept(8 * kKiB, 3), Kept(20 * kKiB, 2), Kept(48 * kKiB, 3), Held(72 * kKiB, 6),
};

// From here on an SM would hold a single block, and nothing would overlap its work. So all SMs
// share the row, in parts. Of rows of more than 4 MiB they hold only two or three, so these have
// the smallest parts (docs/scenarios.md, "Few long softmax rows").
//
// float32 rows of 90 to 128 KiB are an exception: with half as many exponentials a byte, they leave
// less to overlap. Rows of 24,000 reach 99 % so, and 96 % as parts. Other rows of up to 128 KiB
// come here if the device lacks parts.
constexpr Line kLongOf2[] = {Parts(208 * kKiB, 5), Held(128 * kKiB, 8), Parts(4 * kMiB, 4)};
constexpr Line kLongOf4[] = {Parts(90 * kKiB, 6), Held(128 * kKiB, 8), Parts(4 * kMiB, 6)};
constexpr Line kLongest[] = {Parts(std::numeric_limits<long>::max(), 3)};

using Lines = std::array<std::span<const Line>, 4>;
constexpr Lines kLinesOf2 = {kShort, kBlocksOf2, kLongOf2, kLongest};
constexpr Lines kLinesOf4 = {kShort, kBlocksOf4, kLongOf4, kLongest};

}  // namespace

SoftmaxRegime SoftmaxRegimeOf(long columns, Element element, const SoftmaxTraits& traits) {
  const long element_bytes = static_cast<long>(SizeOf(element));
  const long row_bytes = columns * element_bytes;
  const long edges = traits.aligned ? 0 : 2 * (16 / element_bytes - 1);  // at most
  for (const auto& lines : element_bytes == 2 ? kLinesOf2 : kLinesOf4) {
    for (const auto& [most_bytes, regime] : lines) {
      const bool exists = (regime.kind != kParts || row_bytes <= traits.longest_parts_bytes) &&
                          (regime.kind != kLanes || regime.lanes >= edges);
      if (exists && row_bytes <= most_bytes) return regime;
    }
  }
  return {};
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
  const std::string vectors = ", " + std::to_string(regime.vectors) + " vectors";
  switch (regime.kind) {
    case kLanes:
      return regime.vectors == 1 ? lanes : lanes + vectors;
    case kExponentials:
      return "exponentials" + vectors;
    case kElements:
      return "elements" + vectors;
    case kParts:
      return "parts" + vectors;
    case kSpread:
      break;
  }
  return "spread";
}

}  // namespace overlapbench
