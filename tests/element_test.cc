// Element types: every value that the suite uses is exact in each of them.
//
// The reference is arithmetic on the value itself (frexp, ldexp); the code under test shifts bits.
#include "workload/element.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "device/error.h"

namespace overlapbench {
namespace {

// All that hold every value in use; float8 does not.
constexpr std::array kElements = {Element::kFloat32, Element::kFloat16, Element::kBfloat16,
                                  Element::kFloat64, Element::kInt32};

// Multiples of 1/128 in (−2, 2), and whole numbers from −256 to 256.
std::vector<float> ValuesInUse() {
  std::vector<float> values;
  for (int i = -255; i <= 255; ++i) values.push_back(static_cast<float>(i) / 128);
  for (int i = -256; i <= 256; ++i) values.push_back(static_cast<float>(i));
  return values;
}

// value = ± m · 2^e with m in [1, 2); half precision stores e + 15 and ten bits of m − 1.
std::uint16_t ReferenceHalfBits(double value) {
  const std::uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  if (value == 0) return sign;
  int exponent = 0;
  const double m = 2 * std::frexp(std::abs(value), &exponent);
  const double fraction = std::ldexp(m - 1, 10);
  EXPECT_EQ(fraction, std::floor(fraction)) << value << " is not exact in half precision";
  return sign | static_cast<std::uint16_t>((exponent - 1 + 15) << 10 | static_cast<int>(fraction));
}

double ReferenceFromHalf(std::uint16_t bits) {
  const double sign = (bits & 0x8000) != 0 ? -1 : 1;
  const int exponent = bits >> 10 & 31;
  const int fraction = bits & 1023;
  if (exponent == 31) {
    return fraction == 0 ? sign * std::numeric_limits<double>::infinity()
                         : std::numeric_limits<double>::quiet_NaN();
  }
  if (exponent == 0) return sign * std::ldexp(fraction, -24);
  return sign * std::ldexp(1024 + fraction, exponent - 25);
}

TEST(HalfBits, MatchTheReference) {
  for (const float value : ValuesInUse())
    EXPECT_EQ(HalfBits(value), ReferenceHalfBits(value)) << value;
}

TEST(SixteenBits, RoundToNearestEven) {
  EXPECT_EQ(BrainBits(1.00390625F), 0x3F80);  // half way from 1: to even, down
  EXPECT_EQ(BrainBits(1.01171875F), 0x3F82);  // half way: to even, up
  EXPECT_EQ(BrainBits(1.0040F), 0x3F81);
  EXPECT_EQ(BrainBits(std::numeric_limits<float>::infinity()), 0x7F80);
  EXPECT_EQ(HalfBits(1.00048828125F), 0x3C00);  // half way from 1
  EXPECT_EQ(HalfBits(1.0005F), 0x3C01);
  EXPECT_EQ(HalfBits(65519), 0x7BFF);
  EXPECT_EQ(HalfBits(-65520), 0xFC00);
  EXPECT_EQ(HalfBits(0x1p-24F), 1);
  EXPECT_EQ(HalfBits(0x1p-25F), 0);
  EXPECT_EQ(HalfBits(-0x1.8p-24F), 0x8002);
  EXPECT_EQ(HalfBits(0x1.FFFp-15F), 0x0400);  // up to the smallest normal
  EXPECT_TRUE(std::isnan(FromHalf(HalfBits(std::numeric_limits<float>::quiet_NaN()))));
}

TEST(FromHalf, MatchesTheReferenceForEveryPattern) {
  for (int pattern = 0; pattern <= 0xFFFF; ++pattern) {
    const auto bits = static_cast<std::uint16_t>(pattern);
    const double expected = ReferenceFromHalf(bits);
    if (std::isnan(expected))
      ASSERT_TRUE(std::isnan(FromHalf(bits))) << pattern;
    else
      ASSERT_EQ(FromHalf(bits), expected) << pattern;
  }
}

// e4m3: four bits of exponent, biased by 7, three of fraction, no infinity.
double ReferenceFromFloat8(int bits) {
  const double sign = (bits & 0x80) != 0 ? -1 : 1;
  const int exponent = bits >> 3 & 15;
  const int fraction = bits & 7;
  if (exponent == 15 && fraction == 7) return std::numeric_limits<double>::quiet_NaN();
  if (exponent == 0) return sign * std::ldexp(fraction, -9);
  return sign * std::ldexp(8 + fraction, exponent - 10);
}

TEST(FromFloat8, MatchesTheReferenceForEveryPattern) {
  for (int pattern = 0; pattern <= 0xFF; ++pattern) {
    const double expected = ReferenceFromFloat8(pattern);
    const double got = FromFloat8(static_cast<std::uint8_t>(pattern));
    if (std::isnan(expected))
      EXPECT_TRUE(std::isnan(got)) << pattern;
    else
      EXPECT_EQ(got, expected) << pattern;
  }
  EXPECT_EQ(FromFloat8(0x7E), 448) << "the largest";
}

TEST(Float8Bits, KeepExactValues) {
  for (int pattern = 0; pattern <= 0xFF; ++pattern) {
    const auto bits = static_cast<std::uint8_t>(pattern);
    if (std::isnan(FromFloat8(bits))) continue;
    EXPECT_EQ(Float8Bits(FromFloat8(bits)), bits) << pattern;
  }
}

TEST(Held, TruncatesFloat8ToFourSignificantBits) {
  for (const float value : ValuesInUse()) {
    const double held = Held(value, Element::kFloat8);
    EXPECT_LE(std::abs(held), std::abs(value)) << value;
    EXPECT_LE(std::abs(value) - std::abs(held), std::abs(value) / 8) << value;
    EXPECT_EQ(std::signbit(held), std::signbit(value)) << value;
    EXPECT_EQ(Held(value, Element::kFloat32), value);
  }
  EXPECT_EQ(Held(127.0F / 128, Element::kFloat8), 0.9375);
  EXPECT_EQ(Held(1.0F / 128, Element::kFloat8), 1.0 / 128) << "is subnormal";
}

TEST(Store, KeepsEveryValueInEveryType) {
  for (const Element element : kElements) {
    for (const float value : ValuesInUse()) {
      if (element == Element::kInt32 && value != std::floor(value)) continue;
      std::array<std::byte, 24> bytes{};
      Store(bytes.data(), 1, element, value);
      EXPECT_EQ(Load(bytes.data(), 1, element), value) << ToString(element);
      EXPECT_EQ(Load(bytes.data(), 0, element), 0) << ToString(element);
      EXPECT_EQ(Load(bytes.data(), 2, element), 0) << ToString(element);
    }
  }
}

TEST(Load, DistinguishesPoisonFromEveryValue) {
  std::array<std::uint8_t, 8> poison{};
  poison.fill(0xFF);
  for (const Element element : kElements) {
    const double value = Load(poison.data(), 0, element);
    if (element == Element::kInt32)
      EXPECT_EQ(value, -1);
    else
      EXPECT_TRUE(std::isnan(value)) << ToString(element);
  }
  EXPECT_TRUE(std::isnan(Load(poison.data(), 0, Element::kFloat8)));
}

TEST(ElementNames, RoundTrip) {
  for (const Element element : kElements) EXPECT_EQ(ElementNamed(ToString(element)), element);
  EXPECT_EQ(ElementNamed("float8_e4m3"), Element::kFloat8);
  EXPECT_EQ(ElementNamed("fp32"), Element::kFloat32);
  EXPECT_EQ(ElementNamed("fp16"), Element::kFloat16);
  EXPECT_EQ(ElementNamed("bf16"), Element::kBfloat16);
  EXPECT_THROW(ElementNamed("float8"), Error);
}

TEST(SizeOf, IsTheSizeOfTheType) {
  EXPECT_EQ(SizeOf(Element::kFloat16), 2U);
  EXPECT_EQ(SizeOf(Element::kBfloat16), 2U);
  EXPECT_EQ(SizeOf(Element::kFloat32), 4U);
  EXPECT_EQ(SizeOf(Element::kInt32), 4U);
  EXPECT_EQ(SizeOf(Element::kFloat8), 1U);
  EXPECT_EQ(SizeOf(Element::kFloat64), 8U);
}

}  // namespace
}  // namespace overlapbench
