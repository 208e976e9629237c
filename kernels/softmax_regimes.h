// How the fused softmax holds a row, by the row's length: a table (softmax_regimes.cc).
//
//   kStaged        short rows that do not start at 16-byte boundaries: a block moves many of them
//                  through shared memory, where some lanes of a warp hold a row as 4-byte words
//   kLanes         some lanes of a warp hold the row in registers, as 16-byte vectors
//   kExponentials  a block holds the row's exponentials in registers
//   kElements      a block holds the row in registers, and computes its exponentials twice
//   kParts         the row is cut into parts, which stream through the shared memory of all SMs and
//                  whose maxima and sums meet in device memory. Needs compute capability 9.0 and
//                  122 KiB of shared memory a block
//   kTwoPass       no regime holds the row: it is read twice
#pragma once

#include <cstdint>
#include <string>

#include "workload/element.h"

namespace overlapbench {

enum class SoftmaxRegimeKind : std::uint8_t {
  kStaged,
  kLanes,
  kExponentials,
  kElements,
  kParts,
  kTwoPass
};

struct SoftmaxRegime {
  SoftmaxRegimeKind kind = SoftmaxRegimeKind::kTwoPass;
  int lanes = 0;  // kStaged, kLanes: lanes a row
  int units = 0;  // words (kStaged) or vectors a thread
};

// What the choice depends on beside the row's length.
struct SoftmaxTraits {
  bool aligned = true;  // every row of input and output starts at a 16-byte boundary
  bool parts = true;    // the device can do kParts
};

SoftmaxRegime SoftmaxRegimeOf(long columns, Element element, const SoftmaxTraits& traits);

// "32 lanes, 2 vectors"
std::string ToString(const SoftmaxRegime& regime);

}  // namespace overlapbench
