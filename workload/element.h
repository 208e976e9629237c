// Element types of workloads, and how a value is stored in each: rounded to nearest, ties to even,
// as GPUs do.
//
// Every value with which the suite fills a buffer is a multiple of 1/128 below 2, or a whole number
// up to 256. All of these types except float8 represent such values exactly. Inputs are therefore
// the same number in every precision, and the sums of collectives are exact. float8 is the format
// e4m3 (Micikevicius et al., "FP8 Formats for Deep Learning", 2022). It keeps four significant bits
// and truncates the others; Held() returns the stored value.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "device/body.h"

namespace overlapbench {

enum class Element : std::uint8_t { kFloat32, kFloat16, kBfloat16, kFloat64, kInt32, kFloat8 };

[[nodiscard]] OVERLAPBENCH_BODY constexpr std::size_t SizeOf(Element element) {
  switch (element) {
    case Element::kFloat16:
    case Element::kBfloat16:
      return 2;
    case Element::kFloat64:
      return 8;
    case Element::kFloat32:
    case Element::kInt32:
      return 4;
    case Element::kFloat8:
      return 1;
  }
  return 0;
}

// Accepts the long and the short names of kElementNames; throws Error for any other.
Element ElementNamed(std::string_view name);
std::string ToString(Element element);

template <class To, class From>
OVERLAPBENCH_BODY To BitCast(const From& from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  memcpy(&to, &from, sizeof(to));
  return to;
}

// `value` in IEEE 754 half precision. A GPU converts by one instruction.
[[nodiscard]] OVERLAPBENCH_BODY inline std::uint16_t HalfBits(float value) {
#ifdef __CUDA_ARCH__
  std::uint16_t bits;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
  return bits;
#else
  constexpr float kSmallestNormal = 6.103515625e-5F;  // 2^-14
  constexpr float kOverflow = 65520;                  // half way from the largest half to 2^16
  const auto sign = static_cast<std::uint16_t>(BitCast<std::uint32_t>(value) >> 16 & 0x8000U);
  const float magnitude = value < 0 ? -value : value;
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

// bfloat16 is the upper half of a float.
[[nodiscard]] OVERLAPBENCH_BODY inline std::uint16_t BrainBits(float value) {
#ifdef __CUDA_ARCH__
  std::uint16_t rounded;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(rounded) : "f"(value));
  return rounded;
#else
  const auto bits = BitCast<std::uint32_t>(value);
  if (value != value) return static_cast<std::uint16_t>(bits >> 16 | 0x40U);  // stays NaN
  return static_cast<std::uint16_t>((bits + 0x7FFFU + (bits >> 16 & 1U)) >> 16);
#endif
}

// `value` in float8; requires a magnitude below 448. The exponent is rebiased from 127 to 7, and
// the fraction cut from 23 bits to 3. Below 2^-6 the result is subnormal: a multiple of 2^-9.
[[nodiscard]] OVERLAPBENCH_BODY inline std::uint8_t Float8Bits(float value) {
  const auto bits = BitCast<std::uint32_t>(value);
  const std::uint32_t sign = bits >> 24 & 0x80U;
  const std::uint32_t exponent = bits >> 23 & 0xFFU;
  const float magnitude = value < 0 ? -value : value;
  const std::uint32_t rest = exponent > 127 - 7 ? (exponent - 127 + 7) << 3 | (bits >> 20 & 7U)
                                                : static_cast<std::uint32_t>(magnitude * 512);
  return static_cast<std::uint8_t>(sign | rest);
}

OVERLAPBENCH_BODY inline void Store(void* data, long index, Element element, float value) {
  switch (element) {
    case Element::kFloat32:
      static_cast<float*>(data)[index] = value;
      break;
    case Element::kFloat16:
      static_cast<std::uint16_t*>(data)[index] = HalfBits(value);
      break;
    case Element::kBfloat16:
      static_cast<std::uint16_t*>(data)[index] = BrainBits(value);
      break;
    case Element::kFloat64:
      static_cast<double*>(data)[index] = value;
      break;
    case Element::kInt32:
      static_cast<std::int32_t*>(data)[index] = static_cast<std::int32_t>(value);
      break;
    case Element::kFloat8:
      static_cast<std::uint8_t*>(data)[index] = Float8Bits(value);
      break;
  }
}

[[nodiscard]] OVERLAPBENCH_BODY inline float FromHalf(std::uint16_t bits) {
#ifdef __CUDA_ARCH__
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
  return value;
#else
  const std::uint32_t sign = (bits & 0x8000U) << 16;
  const std::uint32_t exponent = bits >> 10 & 0x1FU;
  const std::uint32_t fraction = bits & 0x3FFU;
  if (exponent == 0x1F) return BitCast<float>(sign | 0x7F800000U | fraction << 13);
  if (exponent == 0) {
    const float magnitude =
        static_cast<float>(fraction) / 16777216.0F;  // subnormal: fraction × 2^-24
    return sign != 0 ? -magnitude : magnitude;
  }
  return BitCast<float>(sign | (exponent - 15 + 127) << 23 | fraction << 13);
#endif
}

[[nodiscard]] OVERLAPBENCH_BODY inline float FromBrain(std::uint16_t bits) {
  return BitCast<float>(static_cast<std::uint32_t>(bits) << 16);
}

[[nodiscard]] OVERLAPBENCH_BODY inline float FromFloat8(std::uint8_t bits) {
  const std::uint32_t sign = (bits & 0x80U) << 24;
  const std::uint32_t exponent = bits >> 3 & 0xFU;
  const std::uint32_t fraction = bits & 7U;
  if (exponent == 0xF && fraction == 7) return BitCast<float>(0x7FC00000U);  // there is no infinity
  if (exponent == 0) {
    const float magnitude = static_cast<float>(fraction) / 512.0F;  // subnormal: fraction × 2^-9
    return sign != 0 ? -magnitude : magnitude;
  }
  return BitCast<float>(sign | (exponent - 7 + 127) << 23 | fraction << 20);
}

[[nodiscard]] OVERLAPBENCH_BODY inline double Load(const void* data, long index, Element element) {
  switch (element) {
    case Element::kFloat32:
      return static_cast<const float*>(data)[index];
    case Element::kFloat16:
      return FromHalf(static_cast<const std::uint16_t*>(data)[index]);
    case Element::kBfloat16:
      return FromBrain(static_cast<const std::uint16_t*>(data)[index]);
    case Element::kFloat64:
      return static_cast<const double*>(data)[index];
    case Element::kInt32:
      return static_cast<const std::int32_t*>(data)[index];
    case Element::kFloat8:
      return FromFloat8(static_cast<const std::uint8_t*>(data)[index]);
  }
  return 0;
}

// The same for float32, float16 and bfloat16, in kernels that compute in float32.
[[nodiscard]] OVERLAPBENCH_BODY inline float LoadFloat(const void* data, long index,
                                                       Element element) {
  if (element == Element::kFloat32) return static_cast<const float*>(data)[index];
  const std::uint16_t bits = static_cast<const std::uint16_t*>(data)[index];
  return element == Element::kFloat16 ? FromHalf(bits) : FromBrain(bits);
}

// Calls visit with the type as a template argument: a loop inside branches on the type once, not
// once per element.
//
//   WithElement(element, [&]<Element kElement>() { … });
template <class Visit>
OVERLAPBENCH_BODY void WithElement(Element element, const Visit& visit) {
  switch (element) {
    case Element::kFloat32:
      return visit.template operator()<Element::kFloat32>();
    case Element::kFloat16:
      return visit.template operator()<Element::kFloat16>();
    case Element::kBfloat16:
      return visit.template operator()<Element::kBfloat16>();
    case Element::kFloat64:
      return visit.template operator()<Element::kFloat64>();
    case Element::kInt32:
      return visit.template operator()<Element::kInt32>();
    case Element::kFloat8:
      return visit.template operator()<Element::kFloat8>();
  }
}

// The value that a buffer of this type holds after `value` was stored in it.
[[nodiscard]] OVERLAPBENCH_BODY inline double Held(float value, Element element) {
  double room = 0;
  Store(&room, 0, element, value);
  return Load(&room, 0, element);
}

}  // namespace overlapbench
