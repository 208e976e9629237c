// Reads and writes elements of any type as floats, for kernels that compute in float32.
//
// StoreRounded takes any float and rounds it to nearest, ties to even, as GPUs do. Store, in
// workload/element.h, only takes values that need no rounding.
#pragma once

#include <cmath>

#include "workload/element.h"
#ifdef __CUDACC__
#include <cuda_fp16.h>
#endif

namespace overlapbench {

[[nodiscard]] OVERLAPBENCH_BODY inline std::uint16_t RoundedBrainBits(float value) {
  const auto bits = BitCast<std::uint32_t>(value);
  if (value != value) return static_cast<std::uint16_t>(bits >> 16 | 0x40U);  // stays NaN
  return static_cast<std::uint16_t>((bits + 0x7FFFU + (bits >> 16 & 1U)) >> 16);
}

[[nodiscard]] OVERLAPBENCH_BODY inline std::uint16_t RoundedHalfBits(float value) {
#ifdef __CUDA_ARCH__
  return __half_as_ushort(__float2half_rn(value));
#else
  constexpr float kSmallestNormal = 6.103515625e-5F;  // 2^-14
  constexpr float kOverflow = 65520;                  // half way from the largest half to 2^16
  const auto sign = static_cast<std::uint16_t>(BitCast<std::uint32_t>(value) >> 16 & 0x8000U);
  const float magnitude = fabsf(value);
  if (value != value) return sign | 0x7E00U;
  if (magnitude >= kOverflow) return sign | 0x7C00U;
  if (magnitude < kSmallestNormal) {
    // The unit in the last place of 0.5 is a subnormal half's: 2^-24.
    const auto rounded = BitCast<std::uint32_t>(magnitude + 0.5F);
    return sign | static_cast<std::uint16_t>(rounded - BitCast<std::uint32_t>(0.5F));
  }
  // The exponent rebiased from 127 to 15, the fraction rounded from 23 bits to 10.
  const std::uint32_t bits = BitCast<std::uint32_t>(magnitude) - (112U << 23);
  return sign | static_cast<std::uint16_t>((bits + 0xFFFU + (bits >> 13 & 1U)) >> 13);
#endif
}

[[nodiscard]] OVERLAPBENCH_BODY inline float LoadFloat(const void* data, long index,
                                                       Element element) {
  if (element == Element::kFloat32) return static_cast<const float*>(data)[index];
  const std::uint16_t bits = static_cast<const std::uint16_t*>(data)[index];
#ifdef __CUDA_ARCH__
  if (element == Element::kFloat16) return __half2float(__ushort_as_half(bits));
#else
  if (element == Element::kFloat16) return FromHalf(bits);
#endif
  return BitCast<float>(static_cast<std::uint32_t>(bits) << 16);
}

OVERLAPBENCH_BODY inline void StoreRounded(void* data, long index, Element element, float value) {
  switch (element) {
    case Element::kFloat16:
      static_cast<std::uint16_t*>(data)[index] = RoundedHalfBits(value);
      break;
    case Element::kBfloat16:
      static_cast<std::uint16_t*>(data)[index] = RoundedBrainBits(value);
      break;
    default:
      Store(data, index, element, value);
  }
}

}  // namespace overlapbench
