// The oracle of GELU: its value and derivative in double precision, and the check of a result.
//
// A result is correct if |error| ≤ tolerance·(|expected| + scale + the type's smallest normal
// number), since rounding errors are absolute below that number. The scale keeps the check from
// requiring digits that no evaluation of the given kind has:
//
//   Fused, FusedScalar  forward: 1e-3. Results below it (x < −3.9) may lose relative accuracy with
//                       x², because the exponent −x²/2 is itself rounded.
//                       backward: |grad|, times 0.1 in float32 and 1e-3 in 16 bits, where float32's
//                       errors do not show. The derivative is a difference that crosses zero.
//   Unfused             forward: |x|. backward: |grad|·(1 + |x| + |x|³/5), x·u' for tanh. The naive
//                       formula adds 1 to a number near −1 and multiplies the difference.
//
// The tolerance follows from the relative rounding error u of the element type
// (workload/rounding_error.h). Fused: 1.1·u, a tenth of it for the approximation, whose error is
// below 3e-5; in float32 1e-6. Unfused: 8·u, since no program's roundings weigh more.
#pragma once

#include <chrono>
#include <cmath>

#include "kernels/gelu.h"
#include "workload/workload.h"

namespace overlapbench {

// gelu(x) and gelu'(x): their limits at ±inf, and NaN for NaN.
[[nodiscard]] OVERLAPBENCH_BODY inline double GeluValue(GeluForm form, double x) {
  constexpr double kRootHalf = 0.70710678118654752440;
  constexpr double kRootTwoOverPi = 0.79788456080286535588;
  constexpr double kFar = 60;  // beyond it 1 − Φ(x) is 0 even in a double
  if (x < -kFar) return -0.0;
  if (x > kFar) return x;
  if (form == GeluForm::kErf) return x * 0.5 * erfc(-x * kRootHalf);
  return x / (1 + exp(-2 * kRootTwoOverPi * (x + 0.044715 * x * x * x)));
}

[[nodiscard]] OVERLAPBENCH_BODY inline double GeluDerivative(GeluForm form, double x) {
  constexpr double kRootHalf = 0.70710678118654752440;
  constexpr double kInverseRootTwoPi = 0.39894228040143267794;
  constexpr double kRootTwoOverPi = 0.79788456080286535588;
  constexpr double kFar = 60;
  if (x < -kFar) return 0;
  if (x > kFar) return 1;
  if (form == GeluForm::kErf) {
    return 0.5 * erfc(-x * kRootHalf) + x * kInverseRootTwoPi * exp(-0.5 * x * x);
  }
  const double twice_u = 2 * kRootTwoOverPi * (x + 0.044715 * x * x * x);
  const double slope = 2 * kRootTwoOverPi * (1 + 3 * 0.044715 * x * x);
  const double below = 1 / (1 + exp(-twice_u));
  const double above = 1 / (1 + exp(twice_u));
  return below * (1 + x * above * slope);
}

double GeluTolerance(Element element, GeluVariant variant = GeluVariant::kFused);

// Checks every element, on the device. A fault names the worst one. Waits for `stream`.
Verdict VerifyGelu(Device& device, Stream& stream, const GeluProblem& problem,
                   std::chrono::milliseconds timeout);

}  // namespace overlapbench
