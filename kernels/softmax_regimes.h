// How the fused softmax holds a row: a table by the row's length (softmax_regimes.cc).
//
//   kLanes         Some lanes of a warp hold the row in registers, as 16-byte vectors.
//   kExponentials  A block holds the row's exponentials in registers.
//   kElements      A block holds the row's elements in registers and computes exponentials twice.
//   kParts         The row is cut into parts, which stream through the shared memory of all SMs;
//                  their maxima and sums are merged in device memory. Needs compute capability 9.0,
//                  16 SMs, and 122 KiB of shared memory per block. The SMs must have room for two
//                  rows: on an H200 it takes rows of up to 12.9 MiB.
//   kSpread        No regime holds the row. All SMs share its parts, and read each twice. Without
//                  kParts this takes rows of more than 128 KiB.
#pragma once

#include <cstdint>
#include <limits>
#include <string>

#include "workload/element.h"

namespace overlapbench {

enum class SoftmaxRegimeKind : std::uint8_t { kLanes, kExponentials, kElements, kParts, kSpread };

struct SoftmaxRegime {
  SoftmaxRegimeKind kind = SoftmaxRegimeKind::kSpread;
  int lanes = 0;    // kLanes: lanes per row
  int vectors = 0;  // per thread
};

// What the choice depends on besides the row's length.
struct SoftmaxTraits {
  bool aligned = true;  // every row of input and output starts at a 16-byte boundary
  // The longest rows of kParts; 0 if the device does not support it.
  long longest_parts_bytes = std::numeric_limits<long>::max();
};

SoftmaxRegime SoftmaxRegimeOf(long columns, Element element, const SoftmaxTraits& traits);

// Whether SMs share rows, and exchange sums in the workspace.
constexpr bool UsesWorkspace(SoftmaxRegimeKind kind) {
  return kind == SoftmaxRegimeKind::kParts || kind == SoftmaxRegimeKind::kSpread;
}

// Whether there is a device on which such rows use the workspace.
bool SoftmaxNeedsWorkspace(long columns, Element element);

// "32 lanes, 2 vectors"
std::string ToString(const SoftmaxRegime& regime);

}  // namespace overlapbench
