#include "kernels/softmax_cut.h"

#include <algorithm>

namespace overlapbench {
namespace {

constexpr int kVectorBytes = 16;

int MostPart_bytes(const SoftmaxPartShape& shape) {
  return kVectorBytes * shape.piece * shape.workers;
}

}  // namespace

SoftmaxCut CutSoftmaxRow(long row_bytes, bool on_lines, const SoftmaxPartShape& shape,
                         int ring_bytes) {
  const auto over = [](int count, int size) { return (count - 1) / size + 1; };
  const int vectors =
      static_cast<int>(row_bytes / kVectorBytes) + (on_lines ? 0 : kSoftmaxLineVectors - 1);
  SoftmaxCut cut;
  const int fewest = over(vectors, shape.piece * shape.workers);
  cut.vectors = over(over(vectors, fewest), shape.piece) * shape.piece;
  cut.parts_of_row = static_cast<unsigned>(over(vectors, cut.vectors));
  cut.slots = std::min(kMostSoftmaxSlots, ring_bytes / (kVectorBytes * cut.vectors));
  return cut;
}

long LongestSoftmaxParts_bytes(long processors, int ring_bytes) {
  constexpr int kFewestSlots = 3;
  constexpr long kAlways = 1L << 20;  // what the slots of five SMs hold
  const auto [smallest, largest] = std::ranges::minmax(kSoftmaxPartShapes, {}, MostPart_bytes);
  if (ring_bytes < kFewestSlots * MostPart_bytes(largest)) return 0;
  // Less than a slot of a ring is left over.
  const long room = processors * (ring_bytes - MostPart_bytes(smallest));
  return std::max(kAlways, room / 2);
}

}  // namespace overlapbench
