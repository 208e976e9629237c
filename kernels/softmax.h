// Softmax over the rows of a row-major matrix, forward only. Four variants:
//
//   kUnfused      five launches (maximum, subtract, exponential, sum, divide) with temporaries of
//                 the matrix's type in device memory, as a framework without fusion runs it
//   kBlockPerRow  one block per row, with a power of two of threads; reads the row three times
//   kFused        reads the row once; the longest, which the SMs cannot hold, twice
//                 (softmax_regimes.h says which)
//   kTwoPass      the online softmax of M. Milakov and N. Gimelshein, "Online normalizer
//                 calculation for softmax" (2018); reads the row twice, whatever its length
//
// y[i] = exp(x[i] − m) / Σ exp(x[j] − m) with m = max x. Input and output have the same type
// (float32, float16 or bfloat16); the arithmetic is float32. A row that contains a NaN or
// +infinity, or nothing but −infinity, becomes NaN; other −infinities become 0. Results below
// 2^-126 may become 0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "kernels/softmax_regimes.h"
#include "workload/element.h"

namespace overlapbench {

class Device;
class Stream;

enum class SoftmaxVariant : std::uint8_t { kUnfused, kBlockPerRow, kFused, kTwoPass };

struct SoftmaxProblem {
  const void* input = nullptr;  // rows × columns elements, aligned to one element
  void* output = nullptr;       // likewise; must not overlap the input
  // SoftmaxNeeds::workspace_bytes bytes, aligned to 16. For kFused it must be zero before the first
  // launch and left alone between launches. Launches that may run at the same time must not share
  // it, and of those with rows above 6 MiB no more than two may.
  void* workspace = nullptr;
  long rows = 0;
  long columns = 0;
  Element element = Element::kFloat32;
};

// The workspace of kFused, in the regimes that use it: kParts its beginning, kSpread the rest.
inline constexpr std::size_t kSoftmaxPartsWorkspaceBytes = std::size_t{1} << 20;
inline constexpr std::size_t kSoftmaxWorkspaceBytes = 2 * kSoftmaxPartsWorkspaceBytes;

// What a softmax costs beyond its arithmetic.
struct SoftmaxNeeds {
  int passes = 0;  // over the whole matrix, reading or writing, in all launches together
  std::size_t workspace_bytes = 0;
};
// `regime` is that of FusedRegimeOn, and matters to kFused only.
SoftmaxNeeds SoftmaxNeedsOf(SoftmaxVariant variant, const SoftmaxProblem& problem,
                            std::optional<SoftmaxRegimeKind> regime);

// The regime that kFused takes on `device`, if the matrices start at 16-byte boundaries. nullopt on
// the host backend, where a row stays in the core's cache.
std::optional<SoftmaxRegimeKind> FusedRegimeOn(const Device& device, long columns, Element element);

// Enqueues the softmax on `stream`, on either backend. Throws Error for an unsupported type or
// shape.
void LaunchSoftmax(Stream& stream, SoftmaxVariant variant, const SoftmaxProblem& problem);

}  // namespace overlapbench
