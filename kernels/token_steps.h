// Steps of a transformer block between its products, and their gradients: layer norm, and dropout
// with the residual.
//
//   layer norm   y = gain · (x − mean) / √(variance + 1e-5), over the columns of each row
//                (J. L. Ba et al., Layer Normalization, 2016), with one gain for all columns
//   mask         1 / keep with probability keep, else 0
//                (N. Srivastava et al., Dropout, 2014; "inverted", as frameworks do it)
//   residual     y = x + mask · added
//
// Backward, with z = (x − mean) / √(variance + 1e-5), g = the gradient of y and means over the
// columns of each row, a layer norm beside a residual gives
//
//   dx = dy + gain / √(variance + 1e-5) · (g − mean(g) − z · mean(g · z))
//
// and a dropout gives what a residual without an x does.
//
// Matrices are row-major, of float32, float16 or bfloat16, with columns in whole packs
// (kernels/pack.h); arithmetic is in float32. All of them are bound by memory.
#pragma once

#include <cstdint>

#include "device/device.h"
#include "workload/data.h"

namespace overlapbench {

inline constexpr float kDropoutKeep = 0.875F;  // exact in every format, unlike its inverse
inline constexpr float kNormEpsilon = 1e-5F;

// An element of the mask before it is rounded.
[[nodiscard]] OVERLAPBENCH_BODY inline float DropoutMask(std::uint32_t seed, long index) {
  constexpr std::uint32_t kEighths = 7;  // of eight values, how many are kept
  return Random(seed, index) % 8 < kEighths ? 1.0F / kDropoutKeep : 0.0F;
}

void EnqueueLayerNorm(Stream& stream, Element element, long rows, long columns, float gain,
                      const void* x, void* y);
// Makes the elements `first` … first + count - 1 of a mask.
void EnqueueDropoutMask(Stream& stream, Element element, long first, long count, std::uint32_t seed,
                        void* mask);
// `x` may be null: zeros.
void EnqueueResidual(Stream& stream, Element element, long count, const void* x, const void* mask,
                     const void* added, void* y);

struct LayerNormGradient {
  Element element = Element::kFloat32;
  long rows = 0;
  long columns = 0;
  float gain = 1;
  const void* x = nullptr;
  const void* of_result = nullptr;  // g
  const void* added = nullptr;      // dy
  void* result = nullptr;           // dx
};
void EnqueueLayerNormGradient(Stream& stream, const LayerNormGradient& problem);

// sums[row] = Σ over the row of left · right.
void EnqueueRowProducts(Stream& stream, Element element, long rows, long columns, const void* left,
                        const void* right, float* sums);

}  // namespace overlapbench
