// GELU, the activation x·Φ(x), and its derivative, in three variants (Hendrycks and Gimpel,
// "Gaussian Error Linear Units", 2016).
//
//   erf   gelu(x) = x·Φ(x), with Φ the normal distribution function
//   tanh  gelu(x) = x/2·(1 + tanh(u)),  u = √(2/π)·(x + 0.044715·x³)
//
// forward   output[i] = gelu(input[i])
// backward  output[i] = grad[i]·gelu'(input[i])
//
// Elements are float32, float16 or bfloat16; arithmetic is in float32. Fused and FusedScalar agree
// with the exact value for every input, including ±inf and subnormals: gelu(−0) = −0, gelu(−inf) is
// the limit −0, gelu(+inf) = +inf, and NaN stays NaN (gelu_math.h). Unfused rounds every
// intermediate value to the element's type, like a framework that runs operation by operation; if
// an intermediate value overflows, so does the result.
#pragma once

#include <cstdint>

#include "workload/element.h"

namespace overlapbench {

class Stream;

enum class GeluVariant : std::uint8_t {
  kUnfused,      // one launch per operation, each through device memory
  kFusedScalar,  // one element per thread
  kFused,        // 16-byte accesses, several in flight; on the host backend the same as FusedScalar
};
enum class GeluForm : std::uint8_t { kTanh, kErf };
enum class GeluDirection : std::uint8_t { kForward, kBackward };

// Pointers are to device memory of `count` elements each, and must be aligned to one element. Fused
// moves 16 bytes at a time if all of them are misaligned by the same number of bytes.
struct GeluTensors {
  const void* input = nullptr;
  const void* grad = nullptr;  // backward only
  void* output = nullptr;      // may be `input` or `grad`, except in Unfused
  void* scratch = nullptr;     // Unfused backward only: temporary values
  long count = 0;
};

// One computation of GELU.
struct GeluProblem {
  GeluVariant variant = GeluVariant::kFused;
  GeluForm form = GeluForm::kTanh;
  GeluDirection direction = GeluDirection::kForward;
  Element element = Element::kFloat32;
  GeluTensors tensors;
};

// How often a whole tensor is read or written, in all launches together.
int GeluPasses(GeluVariant variant, GeluForm form, GeluDirection direction);

// Enqueues on `stream`. Throws Error if a launch fails.
void LaunchGelu(Stream& stream, const GeluProblem& problem);

}  // namespace overlapbench
