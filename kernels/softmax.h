// Softmax over the rows of a row-major matrix, forward only, in four variants:
//
//   kUnfused      five launches (maximum, subtract, exponential, sum, divide) with temporaries of
//                 the matrix's type in device memory: what a framework without fusion runs
//   kBlockPerRow  one block a row, a power of two of threads, which reads its row three times
//   kFused        one read and one write of device memory, whatever the length of the row
//   kTwoPass      the online softmax of M. Milakov and N. Gimelshein, "Online normalizer
//                 calculation for softmax" (2018): reads the row twice, whatever its length
//
// y[i] = exp(x[i] − m) / Σ exp(x[j] − m) with m = max x. Input and output have the same type
// (float32, float16 or bfloat16); the arithmetic is float32. A row that holds a NaN or +infinity,
// or nothing but −infinity, becomes NaN; other −infinities become 0. Results below 2^-126 may
// become 0.
//
// kFused chooses how to hold a row from its length: SoftmaxRegimeOf (softmax_regimes.h).
#pragma once

#include <cstddef>
#include <cstdint>

#include "device/device.h"
#include "workload/element.h"

namespace overlapbench {

enum class SoftmaxVariant : std::uint8_t { kUnfused, kBlockPerRow, kFused, kTwoPass };

struct SoftmaxProblem {
  const void* input = nullptr;  // rows × columns elements, aligned to one element
  void* output = nullptr;       // likewise; must not overlap the input
  // SoftmaxWorkspaceBytes bytes, aligned to 16. That of kFused must be zero before its first
  // launch, and left alone between launches. Launches that may run at the same time must not share
  // it.
  void* workspace = nullptr;
  long rows = 0;
  long columns = 0;
  Element element = Element::kFloat32;
};

inline constexpr std::size_t kSoftmaxWorkspaceBytes = std::size_t{1} << 20;  // of kFused

std::size_t SoftmaxWorkspaceBytes(SoftmaxVariant variant, long rows, long columns, Element element);

// Enqueues the softmax on `stream`, on either backend. Throws Error for a type or shape that does
// not exist.
void LaunchSoftmax(Stream& stream, SoftmaxVariant variant, const SoftmaxProblem& problem);

}  // namespace overlapbench
