// GELU, the activation x·Φ(x), and its derivative, in three variants (Hendrycks and Gimpel,
// "Gaussian Error Linear Units", 2016).
//
//   erf   gelu(x) = x·Φ(x), Φ the normal distribution function
//   tanh  gelu(x) = x/2·(1 + tanh(u)),  u = √(2/π)·(x + 0.044715·x³)
//
// forward   output[i] = gelu(input[i])
// backward  output[i] = grad[i]·gelu'(input[i])
//
// Elements are float32, float16 or bfloat16; arithmetic is in float32. Fused and FusedScalar agree
// with the exact value on every input, ±inf and subnormals included: gelu(−0) = −0, gelu(−inf) is
// the limit −0, gelu(+inf) = +inf, and not-a-number stays so (gelu_math.h). Unfused rounds every
// intermediate value to the element's type, as a framework does that runs operation by operation;
// where one of them overflows, so does its result.
#pragma once

#include <cstdint>

#include "device/device.h"
#include "workload/element.h"

namespace overlapbench {

enum class GeluVariant : std::uint8_t {
  kUnfused,      // one launch an operation, each through device memory
  kFusedScalar,  // one element a thread
  kFused,        // 16-byte accesses, several in flight; on the host backend the same as FusedScalar
};
enum class GeluForm : std::uint8_t { kTanh, kErf };
enum class GeluDirection : std::uint8_t { kForward, kBackward };

// Pointers are to device memory of `count` elements each and need be aligned to the element only;
// Fused moves 16 bytes at a time where all of them are misaligned by the same number of bytes.
struct GeluTensors {
  const void* input = nullptr;
  const void* grad = nullptr;  // backward only
  void* output = nullptr;      // may be `input` or `grad`, except in Unfused
  void* scratch = nullptr;     // Unfused backward only: what it keeps between its launches
  long count = 0;
};

// How often a tensor is read or written from one end to the other, in all launches together.
int GeluPasses(GeluVariant variant, GeluForm form, GeluDirection direction);

// Enqueues on `stream`. Throws Error when a launch fails.
void LaunchGelu(Stream& stream, GeluVariant variant, GeluForm form, GeluDirection direction,
                Element element, const GeluTensors& tensors);

}  // namespace overlapbench
