// What the softmax kernels share: element types in registers, base-2 exponentials, and merging of
// partial sums.
//
// exp(x − m) is computed as ex2((x − m)·log2 e). The subtraction comes first, because x·log2 e
// would overflow near the largest float and its rounding error would matter for large x. Where
// neither can happen, ScaledExponentials scales first. ex2.approx.ftz has a relative error of 2^-22
// and flushes results below 2^-126 to 0 (PTX ISA, "ex2").
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <limits>

#include "device/error.h"
#include "workload/element.h"

namespace overlapbench::softmax {

constexpr unsigned kWholeWarp = 0xFFFFFFFF;

__device__ __forceinline__ float MinusInfinity() { return __uint_as_float(0xFF800000U); }

constexpr float kLog2E = 1.4426950408889634F;

__device__ __forceinline__ float Exponential2(float x) {
  float y = 0;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

__device__ __forceinline__ float Exponential(float x) { return Exponential2(x * kLog2E); }

// The relative error is at most 2^-23 (PTX ISA, "rcp").
__device__ __forceinline__ float Reciprocal(float x) {
  float y = 0;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// A maximum, and the sum of exp(x − maximum) over the same elements.
struct Partial {
  float max = 0;
  float sum = 0;
};

__device__ __forceinline__ Partial NoPartial() { return {MinusInfinity(), 0}; }

// What to subtract from elements whose maximum is `max`. Subtracting −infinity from itself would
// turn a part of a row into NaN even if the row has finite elements elsewhere.
__device__ __forceinline__ float Reference(float max) {
  return max == MinusInfinity() ? 0.0F : max;
}

// exp(x − m), for one m and many x.
class Exponentials {
 public:
  __device__ explicit Exponentials(float max) : max_(max) {}
  __device__ float operator()(float x) const { return Exponential(x - max_); }
  // What a sum of them must be multiplied by.
  [[nodiscard]] __device__ float correction() const { return 1.0F; }

 private:
  float max_;
};

// The same as ex2(x·log2 e − m·log2 e): one instruction less per element, for two more registers.
// The second product is rounded, by the same amount for every x; the correction undoes that. From
// Kind::kAlone on, a type's values are at least 128 apart, so exp(x − m) is 1 for x = m and below
// 2^-126 otherwise. Any factor of at least 1 gives that, and 1 neither overflows nor rounds.
template <class Kind>
class ScaledExponentials {
 public:
  __device__ explicit ScaledExponentials(float max)
      : max_(max), factor_(fabsf(max) < Kind::kAlone ? kLog2E : 1.0F), offset_(max * factor_) {}
  __device__ float operator()(float x) const { return Exponential2(fmaf(x, factor_, -offset_)); }
  [[nodiscard]] __device__ float correction() const {
    return Exponential2(fmaf(-max_, factor_, offset_));
  }

 private:
  float max_;
  float factor_;
  float offset_;
};

// The last step: a row's results from its maximum and sum.
template <class Exponentials = Exponentials>
class Normalizer {
 public:
  // If the row is all −infinity, or contains +infinity or NaN, its sum is 0 or NaN, and all its
  // results become NaN.
  __device__ explicit Normalizer(const Partial& row) : Normalizer(row, 1.0F / row.sum) {}
  __device__ Normalizer(const Partial& row, float inverse_sum)
      : exponentials_(row.max), factor_(inverse_sum * exponentials_.correction()) {}
  __device__ float operator()(float x) const { return exponentials_(x) * factor_; }

 private:
  Exponentials exponentials_;
  float factor_;
};

// Element types. A word is 32 bits as loaded: kPerWord elements, one float or a pair of 2-byte
// elements.
template <class T>
struct Format;

template <>
struct Format<float> {
  // Saves a register and is as fast, because a byte has half as many elements.
  using FastExponentials = Exponentials;
  static constexpr int kPerWord = 1;
  static constexpr std::uint32_t kMinusInfinities = 0xFF800000U;
  __device__ static float ToFloat(float value) { return value; }
  __device__ static float FromFloat(float value) { return value; }
  __device__ static std::uint32_t Max(std::uint32_t a, std::uint32_t b) {
    return __float_as_uint(fmaxf(__uint_as_float(a), __uint_as_float(b)));
  }
  __device__ static float MaxOf(std::uint32_t word) { return __uint_as_float(word); }
  __device__ static void Unpack(std::uint32_t word, float (&x)[1]) { x[0] = __uint_as_float(word); }
  __device__ static std::uint32_t Pack(const float (&x)[1]) { return __float_as_uint(x[0]); }
};

// `Kind` names the type's own instructions.
template <class Kind>
struct PairFormat {
  using Pair = typename Kind::Pair;
  using FastExponentials = ScaledExponentials<Kind>;
  static constexpr int kPerWord = 2;
  __device__ static float ToFloat(typename Kind::Single value) { return static_cast<float>(value); }
  __device__ static auto FromFloat(float value) { return Kind::Round(value); }
  __device__ static std::uint32_t Max(std::uint32_t a, std::uint32_t b) {
    return BitCast<std::uint32_t>(__hmax2(BitCast<Pair>(a), BitCast<Pair>(b)));
  }
  __device__ static float MaxOf(std::uint32_t word) {
    const float2 x = Kind::Unpack(word);
    return fmaxf(x.x, x.y);
  }
  __device__ static void Unpack(std::uint32_t word, float (&x)[2]) {
    const float2 pair = Kind::Unpack(word);
    x[0] = pair.x;
    x[1] = pair.y;
  }
  __device__ static std::uint32_t Pack(const float (&x)[2]) {
    return BitCast<std::uint32_t>(Kind::Pack(x[0], x[1]));
  }
};

struct Bfloat16Kind {
  using Single = __nv_bfloat16;
  using Pair = __nv_bfloat162;
  static constexpr float kAlone = 0x1p15F;
  __device__ static Single Round(float value) { return __float2bfloat16_rn(value); }
  __device__ static Pair Pack(float low, float high) { return __floats2bfloat162_rn(low, high); }
  // One instruction each: bfloat16 is the upper half of a float.
  __device__ static float2 Unpack(std::uint32_t word) {
    return {__uint_as_float(word << 16), __uint_as_float(word & 0xFFFF0000U)};
  }
};
struct Float16Kind {
  using Single = __half;
  using Pair = __half2;
  static constexpr float kAlone = std::numeric_limits<float>::infinity();  // has no such values
  __device__ static Single Round(float value) { return __float2half_rn(value); }
  __device__ static Pair Pack(float low, float high) { return __floats2half2_rn(low, high); }
  __device__ static float2 Unpack(std::uint32_t word) {
    return __half22float2(BitCast<Pair>(word));
  }
};
template <>
struct Format<__nv_bfloat16> : PairFormat<Bfloat16Kind> {
  static constexpr std::uint32_t kMinusInfinities = 0xFF80FF80U;
};
template <>
struct Format<__half> : PairFormat<Float16Kind> {
  static constexpr std::uint32_t kMinusInfinities = 0xFC00FC00U;
};

// Adds the exponentials of a word's elements. Those of a pair go to two sums, so that two chains of
// additions are in flight.
template <class T, class Exponentials>
__device__ __forceinline__ void AddExponentials(std::uint32_t word,
                                                const Exponentials& exponentials,
                                                float (&sums)[2]) {
  float x[Format<T>::kPerWord];
  Format<T>::Unpack(word, x);
#pragma unroll
  for (int i = 0; i < Format<T>::kPerWord; ++i) sums[i] += exponentials(x[i]);
}

template <class T, class Normalizer>
__device__ __forceinline__ std::uint32_t Normalize(std::uint32_t word,
                                                   const Normalizer& normalizer) {
  float x[Format<T>::kPerWord];
  Format<T>::Unpack(word, x);
#pragma unroll
  for (float& value : x) value = normalizer(value);
  return Format<T>::Pack(x);
}

template <int kLanes>
__device__ __forceinline__ float MaxOverLanes(float value) {
#pragma unroll
  for (int step = kLanes / 2; step > 0; step /= 2) {
    value = fmaxf(value, __shfl_xor_sync(kWholeWarp, value, step));
  }
  return value;
}

template <int kLanes>
__device__ __forceinline__ float SumOverLanes(float value) {
#pragma unroll
  for (int step = kLanes / 2; step > 0; step /= 2) {
    value += __shfl_xor_sync(kWholeWarp, value, step);
  }
  return value;
}

__device__ __forceinline__ Partial Merge(const Partial& a, const Partial& b) {
  const float max = fmaxf(a.max, b.max);
  const float reference = Reference(max);
  return {max, a.sum * Exponential(a.max - reference) + b.sum * Exponential(b.max - reference)};
}

__device__ __forceinline__ Partial MergeOverWarp(const Partial& part) {
  const float max = MaxOverLanes<32>(part.max);
  return {max, SumOverLanes<32>(part.sum * Exponential(part.max - Reference(max)))};
}

// Every thread of the block gets the merged value; `shared` has room for one value per warp.
__device__ __forceinline__ float MaxOverBlock(float value, float* shared) {
  const int lane = threadIdx.x % 32;
  value = MaxOverLanes<32>(value);
  if (lane == 0) shared[threadIdx.x / 32] = value;
  __syncthreads();
  return MaxOverLanes<32>(lane < blockDim.x / 32 ? shared[lane] : MinusInfinity());
}

__device__ __forceinline__ float SumOverBlock(float value, float* shared) {
  const int lane = threadIdx.x % 32;
  value = SumOverLanes<32>(value);
  if (lane == 0) shared[threadIdx.x / 32] = value;
  __syncthreads();
  return SumOverLanes<32>(lane < blockDim.x / 32 ? shared[lane] : 0.0F);
}

__device__ __forceinline__ Partial MergeOverBlock(const Partial& part, Partial* shared) {
  const int lane = threadIdx.x % 32;
  const Partial merged = MergeOverWarp(part);
  if (lane == 0) shared[threadIdx.x / 32] = merged;
  __syncthreads();
  return MergeOverWarp(lane < blockDim.x / 32 ? shared[lane] : NoPartial());
}

// Calls visit(T{}) with the C++ type of `element`.
template <class Visit>
void VisitElementType(Element element, const Visit& visit) {
  switch (element) {
    case Element::kFloat32:
      return visit(float{});
    case Element::kFloat16:
      return visit(__half{});
    case Element::kBfloat16:
      return visit(__nv_bfloat16{});
    case Element::kFloat64:
    case Element::kInt32:
      break;
  }
  throw Error("softmax has no kernel for " + ToString(element));
}

}  // namespace overlapbench::softmax
