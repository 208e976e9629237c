// What the softmax kernels share: element types in registers, base-2 exponentials, and the merging
// of partial sums.
//
// exp(x − m) is computed as ex2((x − m)·log2 e), where the subtraction comes first: x·log2 e would
// overflow near the largest float. ex2.approx.ftz has a relative error of 2^-22 and flushes results
// below 2^-126 to 0 (PTX ISA, "ex2").
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

#include "device/error.h"
#include "workload/element.h"

namespace overlapbench::softmax {

constexpr unsigned kWholeWarp = 0xFFFFFFFF;

__device__ __forceinline__ float MinusInfinity() { return __uint_as_float(0xFF800000U); }

__device__ __forceinline__ float Exponential(float x) {
  constexpr float kLog2E = 1.4426950408889634F;
  float y = 0;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x * kLog2E));
  return y;
}

// Off by 2^-23 at most (PTX ISA, "rcp").
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

// What to subtract from elements whose maximum is `max`: subtracting −infinity from itself would
// make NaN of a part of a row that has other elements elsewhere.
__device__ __forceinline__ float Reference(float max) {
  return max == MinusInfinity() ? 0.0F : max;
}

// The maximum and sum of a row, as the last step needs them.
struct Normalizer {
  float max;
  float inverse_sum;
  // A row of nothing but −infinity, +infinity or NaN somewhere: its sum is 0 or NaN, and all its
  // results become NaN.
  __device__ explicit Normalizer(const Partial& row) : Normalizer(row, 1.0F / row.sum) {}
  __device__ Normalizer(const Partial& row, float inverse) : max(row.max), inverse_sum(inverse) {}
};

// Element types. A word is 32 bits as they are loaded: one float, or a pair of 2-byte elements.
template <class T>
struct Format;

template <>
struct Format<float> {
  static constexpr std::uint32_t kMinusInfinities = 0xFF800000U;
  __device__ static float ToFloat(float value) { return value; }
  __device__ static float FromFloat(float value) { return value; }
  __device__ static std::uint32_t Max(std::uint32_t a, std::uint32_t b) {
    return __float_as_uint(fmaxf(__uint_as_float(a), __uint_as_float(b)));
  }
  __device__ static float MaxOf(std::uint32_t word) { return __uint_as_float(word); }
  __device__ static void AddExponentials(std::uint32_t word, float reference, float (&sums)[2]) {
    sums[0] += Exponential(__uint_as_float(word) - reference);
  }
  __device__ static std::uint32_t Normalize(std::uint32_t word, const Normalizer& row) {
    return __float_as_uint(Exponential(__uint_as_float(word) - row.max) * row.inverse_sum);
  }
};

// `Kind` names the type's own instructions.
template <class Kind>
struct PairFormat {
  using Pair = typename Kind::Pair;
  __device__ static float ToFloat(typename Kind::Single value) { return static_cast<float>(value); }
  __device__ static auto FromFloat(float value) { return Kind::Round(value); }
  __device__ static std::uint32_t Max(std::uint32_t a, std::uint32_t b) {
    return BitCast<std::uint32_t>(__hmax2(BitCast<Pair>(a), BitCast<Pair>(b)));
  }
  __device__ static float MaxOf(std::uint32_t word) {
    const float2 x = Kind::Unpack(word);
    return fmaxf(x.x, x.y);
  }
  __device__ static void AddExponentials(std::uint32_t word, float reference, float (&sums)[2]) {
    const float2 x = Kind::Unpack(word);
    sums[0] += Exponential(x.x - reference);
    sums[1] += Exponential(x.y - reference);
  }
  __device__ static std::uint32_t Normalize(std::uint32_t word, const Normalizer& row) {
    const float2 x = Kind::Unpack(word);
    return BitCast<std::uint32_t>(Kind::Pack(Exponential(x.x - row.max) * row.inverse_sum,
                                             Exponential(x.y - row.max) * row.inverse_sum));
  }
};

struct Bfloat16Kind {
  using Single = __nv_bfloat16;
  using Pair = __nv_bfloat162;
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

__device__ __forceinline__ Partial MergeOverWarp(const Partial& part) {
  const float max = MaxOverLanes<32>(part.max);
  return {max, SumOverLanes<32>(part.sum * Exponential(part.max - Reference(max)))};
}

// Every thread of the block gets the merged value; `shared` has room for one value a warp.
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
