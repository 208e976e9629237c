// GELU and its derivative of one float, in few instructions.
//
// Issue slots bound a 16-bit GELU, not arithmetic as such. An SM of an H200 issues 128 instructions
// of a thread per cycle, so 132 SMs at 1.98 GHz issue 3.3e13 per second, while a device copy moves
// 4.2e12 bytes per second. An element that reads and writes 2 bytes may therefore take 3.3e13 /
// (4.2e12 / 4) = 32 slots in all, an element of 4 bytes 64, and the backward pass half as many
// again. The special-function unit takes 16 per cycle: 4 per element of 2 bytes. In machine code
// for sm_90, including loads, stores, conversions and addressing, the Fused variant takes per
// element:
//
//                          slots    of them special functions
//   tanh  forward           10.8      2
//   tanh  backward          19.1      2     (18.2 in float32)
//   erf   forward, Coarse   15.8      1
//   erf   forward, Fine     20.8      2
//   erf   backward          23.1      2     (22.2 in float32)
//
// tanh: 1 + tanh(u) = 2 / (1 + exp(−2u)), which does not cancel where tanh(u) nears −1.
//
// erf: with a = |x| and the upper tail Q(a) = 1 − Φ(a), gelu(x) = max(x, 0) − a·Q(a). So one
// function of a ≥ 0 serves both signs, and the negative side keeps its relative accuracy.
//
//   Coarse, for 16-bit results, takes Q = exp2(P(a)): log2 Q is smooth enough for a polynomial of
//   degree 8 over [0, 13.2], and beyond it Q is below the smallest float. Its relative error is
//   1.2e-5 for a < 3, where rounding the result adds up to 4.9e-4 (float16) or 3.9e-3 (bfloat16),
//   and at most 6e-4 beyond.
//
//   Fine, for float32, takes Q = exp(−a²/2)·R(1 / (1 + 0.3·a)) with a polynomial R of degree 8. Its
//   relative error is 6e-8, and 3e-7 as evaluated.
//
// Both derivatives satisfy gelu'(x) + gelu'(−x) = 1, so they are computed for −a. There nothing
// cancels except near a = 0.75, where gelu'(−a) crosses zero and only the absolute error of the
// terms counts: 8e-7 in Coarse arithmetic and 7e-8 in Fine. So the derivative is Fine for 16 bits
// too.
//
// The exponents −a²/2 and 2u are rounded to float32, so the relative error in the negative tail
// grows with them: about 1e-7·(1 + x²).
//
// The fits are minimax: least squares at 1,200 Chebyshev nodes against 40-digit values, reweighted
// by the error until it is level (Lawson 1961). Coarse weighs relative errors by |gelu| / (|gelu| +
// 1e-3), and at least by 0.02.
#pragma once

#include <cmath>

#include "device/body.h"
#include "kernels/gelu.h"

namespace overlapbench::gelu {

enum class Accuracy : bool { kCoarse, kFine };

// The GPU's own approximations, with relative errors of 2^-22 and 2^-23. Results below the smallest
// normal float are 0.
OVERLAPBENCH_BODY inline float Exp2(float x) {
#ifdef __CUDA_ARCH__
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
#else
  const float y = std::exp2(x);
  return y < 0x1p-126F ? 0 : y;
#endif
}

OVERLAPBENCH_BODY inline float Reciprocal(float x) {
#ifdef __CUDA_ARCH__
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
#else
  return 1 / x;
#endif
}

// Minimum and maximum that return NaN for NaN, which fminf and fmaxf would replace.
OVERLAPBENCH_BODY inline float AtMost(float x, float limit) {
#ifdef __CUDA_ARCH__
  float y;
  asm("min.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(x), "f"(limit));
  return y;
#else
  return x > limit ? limit : x;
#endif
}

OVERLAPBENCH_BODY inline float AtLeast(float x, float limit) {
#ifdef __CUDA_ARCH__
  float y;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(x), "f"(limit));
  return y;
#else
  return x < limit ? limit : x;
#endif
}

template <int N>
OVERLAPBENCH_BODY float Polynomial(const float (&coefficients)[N], float x) {
  float sum = coefficients[N - 1];
  for (int i = N - 2; i >= 0; --i) sum = fmaf(sum, x, coefficients[i]);
  return sum;
}

// max(x, −0), which keeps the sign of zero.
OVERLAPBENCH_BODY inline float Positive(float x) { return x < 0 ? -0.0F : x; }

// gelu'(x) from its value at −|x|.
OVERLAPBENCH_BODY inline float Reflect(float x, float at_minus) {
  return x < 0 ? at_minus : 1 - at_minus;
}

template <GeluForm, Accuracy>
struct Function;

template <Accuracy accuracy>
struct Function<GeluForm::kTanh, accuracy> {
  // −2u·log2(e) = x·(kLinear + kCubic·x²)
  static constexpr float kLinear = -2.302208198F;
  static constexpr float kCubic = -0.1029432397F;
  // From here on gelu is below the smallest float; a limit also makes −inf a number.
  static constexpr float kLimit = 16;

  OVERLAPBENCH_BODY static float Value(float x) {
    const float bounded = AtLeast(x, -kLimit);
    const float exponent = bounded * fmaf(bounded * bounded, kCubic, kLinear);
    return bounded * Reciprocal(1 + Exp2(exponent));
  }

  // With σ = 1 / (1 + exp(2|u|)) = e·r: gelu'(−a) = σ·(1 − a·(1 − σ)·2u'), 1 − σ = r.
  OVERLAPBENCH_BODY static float Derivative(float x) {
    constexpr float kSlope = 1.5957691216F;  // 2u' = kSlope + kSlopeSquare·x²
    constexpr float kSlopeSquare = 0.2140644488F;
    const float a = AtMost(fabsf(x), kLimit);
    const float square = a * a;
    const float e = Exp2(a * fmaf(square, kCubic, kLinear));
    const float r = Reciprocal(1 + e);
    const float weight = a * fmaf(square, kSlopeSquare, kSlope);
    return Reflect(x, e * r * fmaf(-weight, r, 1.0F));
  }
};

constexpr float kHalfLog2E = 0.7213475204F;         // exp(−a²/2) = exp2(−kHalfLog2E·a²)
constexpr float kInverseRootTwoPi = 0.3989422804F;  // φ(0)

template <>
struct Function<GeluForm::kErf, Accuracy::kFine> {
  static constexpr float kLimit = 14.2F;

  OVERLAPBENCH_BODY static float Exponential(float a) { return Exp2(a * a * -kHalfLog2E); }
  // Q(a)·exp(a²/2)
  OVERLAPBENCH_BODY static float ScaledTail(float a) {
    constexpr float kScaledTail[] = {7.261909104e-6F, 0.1194861010F,  0.1219317093F,
                                     9.463898838e-2F, 0.1426402479F,  -7.665832341e-2F,
                                     0.2287930101F,   -0.1692305356F, 3.839155659e-2F};
    return Polynomial(kScaledTail, Reciprocal(fmaf(a, 0.3F, 1.0F)));
  }

  OVERLAPBENCH_BODY static float Value(float x) {
    const float a = AtMost(fabsf(x), kLimit);
    return fmaf(-a * Exponential(a), ScaledTail(a), Positive(x));
  }

  OVERLAPBENCH_BODY static float Derivative(float x) {
    const float a = AtMost(fabsf(x), kLimit);
    return Reflect(x, Exponential(a) * fmaf(-a, kInverseRootTwoPi, ScaledTail(a)));
  }
};

template <>
struct Function<GeluForm::kErf, Accuracy::kCoarse> {
  static constexpr float kLimit = 13.2F;

  OVERLAPBENCH_BODY static float UpperTail(float a) {
    constexpr float kLog2Tail[] = {-1.000017047F,    -1.150986552F,    -0.4590723217F,
                                   -5.343948305e-2F, 8.315257728e-3F,  -9.048197535e-4F,
                                   6.322708214e-5F,  -2.510926834e-6F, 4.271382181e-8F};
    return Exp2(Polynomial(kLog2Tail, a));
  }

  OVERLAPBENCH_BODY static float Value(float x) {
    const float a = AtMost(fabsf(x), kLimit);
    return fmaf(-a, UpperTail(a), Positive(x));
  }

  OVERLAPBENCH_BODY static float Derivative(float x) {
    return Function<GeluForm::kErf, Accuracy::kFine>::Derivative(x);
  }
};

}  // namespace overlapbench::gelu
