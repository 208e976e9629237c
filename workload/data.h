// Test data: what workloads put into their buffers, and how they find it again.
//
// Values are functions of (seed, index), so that an oracle can know any element of any rank's
// buffer without storing or moving it. All functions enqueue on `stream`; those that return a
// result wait for it.
#pragma once

#include <cstdint>
#include <string>

#include "device/device.h"
#include "workload/element.h"

namespace overlapbench {

// A mixing function of 32 bits in which every input bit changes about half of the output bits
// (C. Wellons' "lowbias32", found by automatic search, 2018).
[[nodiscard]] OVERLAPBENCH_BODY inline std::uint32_t Mix(std::uint32_t x) {
  x = (x ^ x >> 16) * 0x7FEB352DU;
  x = (x ^ x >> 15) * 0x846CA68BU;
  return x ^ x >> 16;
}

[[nodiscard]] OVERLAPBENCH_BODY inline std::uint32_t Random(std::uint32_t seed, long index) {
  const auto low = static_cast<std::uint32_t>(index);
  const auto high = static_cast<std::uint32_t>(static_cast<std::uint64_t>(index) >> 32);
  return Mix(low ^ Mix(high ^ Mix(seed)));
}

// A multiple of 1/128 in (−1, 1), never 0.
[[nodiscard]] OVERLAPBENCH_BODY inline float RandomFraction(std::uint32_t seed, long index) {
  const std::uint32_t bits = Random(seed, index);
  const float magnitude = static_cast<float>(1 + bits % 127) / 128.0F;
  return (bits >> 31) != 0 ? -magnitude : magnitude;
}

// A whole number from 1 to `most`.
[[nodiscard]] OVERLAPBENCH_BODY inline float RandomInteger(std::uint32_t seed, long index,
                                                           int most) {
  return static_cast<float>(1 + Random(seed, index) % static_cast<std::uint32_t>(most));
}

// data[i] = RandomFraction(seed, i).
void FillFractions(Stream& stream, void* data, long count, Element element, std::uint32_t seed);
// data[i] = RandomInteger(seed, i, most).
void FillIntegers(Stream& stream, void* data, long count, Element element, std::uint32_t seed,
                  int most);
// A number that depends on every bit of the data and on its place; `bytes` is a multiple of 4. On
// the host.
std::uint64_t FingerprintOf(const void* data, std::size_t bytes);
// Sets every byte to 0xFF: not-a-number in each floating-point type, −1 in int32.
void Poison(Stream& stream, void* data, std::size_t bytes);

// What a buffer must hold after a collective. Element i belongs to segment i / segment_count and
// holds what the source ranks have at index first_index + i % segment_count of their own buffers.
struct ExpectedSegments {
  long segment_count = 1;
  long first_index = 0;
  int source = 0;  // the source rank; kEachSegment: segment k comes from rank k
  int ranks = 1;   // with kSum: the sources are ranks 0 … ranks − 1, added up
  int most = 1;    // each rank r filled with FillIntegers(seed + r, most)
  std::uint32_t seed = 0;
  double added = 0;  // to each element afterwards
  static constexpr int kEachSegment = -1;
  static constexpr int kSum = -2;

  [[nodiscard]] OVERLAPBENCH_BODY double At(long i) const {
    const long index = first_index + i % segment_count;
    if (source != kSum) {
      const long rank = source == kEachSegment ? i / segment_count : source;
      return added + RandomInteger(seed + static_cast<std::uint32_t>(rank), index, most);
    }
    double sum = added;
    for (int rank = 0; rank < ranks; ++rank) {
      sum += RandomInteger(seed + static_cast<std::uint32_t>(rank), index, most);
    }
    return sum;
  }
};

// "" when all `count` elements are exactly as expected, else the first fault of some block:
// "element 17 is 3, expected 5". Compares where the data is.
std::string FindFault(Device& device, Stream& stream, const void* data, long count, Element element,
                      const ExpectedSegments& expected, std::chrono::milliseconds timeout);

// "" when all `count` elements were written since Poison (none is not-a-number), else where not.
std::string FindUnwritten(Device& device, Stream& stream, const void* data, long count,
                          Element element, std::chrono::milliseconds timeout);

}  // namespace overlapbench
