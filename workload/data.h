// Test data: how workloads fill their buffers, and check them afterwards.
//
// Values are functions of (seed, index), so an oracle knows any element of any rank's buffer
// without storing or moving it. Neighboring indices and neighboring seeds give unrelated values, so
// misplaced data is found. All functions that take a stream enqueue on it; those that return a
// result wait for it.
//
// The input of a collective is a `CollectiveInput`. Its values are whole numbers, so results are
// compared exactly, in every element type and with any number of ranks.
#pragma once

#include <cstdint>
#include <string>

#include "workload/element.h"
#include "workload/workload.h"

namespace overlapbench {

// A 32-bit mixing function in which every input bit changes about half of the output bits (C.
// Wellons' "lowbias32", found by automatic search, 2018).
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

// The ranks' inputs of a collective: whole numbers from 1 to 256, or from 0 if they are summed.
//
// bfloat16 holds whole numbers exactly up to 256, so no sum may exceed that. With up to 128 ranks,
// every rank adds a number from 1 to 256 / ranks at every index. With more ranks these numbers
// would all be 1, every sum would be the same, and misplaced data would look right. The ranks
// therefore take turns. The indices are cut into blocks of turns(). Every rank contributes at
// exactly one index of each block, and is 0 at the others. Which ranks contribute where differs at
// random from block to block.
struct CollectiveInput {
  std::uint32_t seed = 0;
  int ranks = 1;
  bool summed = false;
  static constexpr int kLargestExact = 256;
  static constexpr int kMostContributors = 128;  // leaves them two values each, 1 and 2

  [[nodiscard]] OVERLAPBENCH_BODY int turns() const {
    return summed ? (ranks + kMostContributors - 1) / kMostContributors : 1;
  }
  // The largest value of one rank.
  [[nodiscard]] OVERLAPBENCH_BODY int most() const {
    const int contributors = (ranks + turns() - 1) / turns();
    return summed ? kLargestExact / contributors : kLargestExact;
  }
  // The ranks that contribute at `index` are this one and every turns()-th rank after it.
  [[nodiscard]] OVERLAPBENCH_BODY int FirstContributor(long index) const {
    if (turns() == 1) return 0;
    const auto shift = static_cast<long>(Random(seed, index / turns()) >> 1);
    return static_cast<int>((index + shift) % turns());
  }
  [[nodiscard]] OVERLAPBENCH_BODY float Contribution(int rank, long index) const {
    return RandomInteger(seed + static_cast<std::uint32_t>(rank), index, most());
  }
  [[nodiscard]] OVERLAPBENCH_BODY float At(int rank, long index) const {
    return rank % turns() == FirstContributor(index) ? Contribution(rank, index) : 0;
  }
  // The sum over all ranks.
  [[nodiscard]] OVERLAPBENCH_BODY double Sum(long index) const {
    double sum = 0;
    for (int rank = FirstContributor(index); rank < ranks; rank += turns()) {
      sum += Contribution(rank, index);
    }
    return sum;
  }
};

// data[i] = RandomFraction(seed, i).
void FillFractions(Stream& stream, void* data, long count, Element element, std::uint32_t seed);
// data[i] = RandomInteger(seed, i, most).
void FillIntegers(Stream& stream, void* data, long count, Element element, std::uint32_t seed,
                  int most);
// data[i] = input.At(rank, i).
void FillCollective(Stream& stream, void* data, long count, Element element,
                    const CollectiveInput& input, int rank);
// A number that depends on every bit of the data and on its position. The data is in host memory;
// `bytes` is a multiple of 4.
std::uint64_t FingerprintOf(const void* data, std::size_t bytes);
// A fingerprint of data on the device, for large results. `first_word` is the data's offset in the
// whole, in words of 4 bytes: the fingerprints of all pieces add up to that of the whole. Waits for
// `stream`.
std::uint64_t FingerprintOnDevice(Device& device, Stream& stream, const void* data,
                                  std::size_t bytes, std::uint64_t first_word,
                                  std::chrono::milliseconds timeout);
// Sets every byte to 0xFF: a NaN in each floating-point type, −1 in int32.
void Poison(Stream& stream, void* data, std::size_t bytes);

// The expected contents of a buffer after a collective or a copy. Segments have segment_count
// elements each. Element i equals the source ranks' elements at index first_index + i %
// segment_count of their own buffers.
struct ExpectedSegments {
  long segment_count = 1;
  long first_index = 0;
  int source = 0;  // the source rank; kEachSegment: segment k is from rank k; kSum: the sum of all
  int ranks = 1;   // with kSum: the number of ranks
  int most = 1;    // rank r's buffer is FillIntegers(seed + r, most); with kSum, CollectiveInput's
  std::uint32_t seed = 0;
  double added = 0;  // what was added to each element afterwards
  static constexpr int kEachSegment = -1;
  static constexpr int kSum = -2;

  [[nodiscard]] OVERLAPBENCH_BODY double At(long i) const {
    const long index = first_index + i % segment_count;
    if (source == kSum) return added + CollectiveInput{seed, ranks, true}.Sum(index);
    const long rank = source == kEachSegment ? i / segment_count : source;
    return added + RandomInteger(seed + static_cast<std::uint32_t>(rank), index, most);
  }
};

// Element `index` of `data`, copied to the host.
double ReadElement(Stream& stream, const void* data, long index, Element element,
                   std::chrono::milliseconds timeout);

// Whether all `count` elements are exactly as expected. The fault names one that is not: "element
// 17 of 100 is 3, expected 5". The comparison runs on the device.
Verdict FindFault(const Machine& machine, Stream& stream, const void* data, long count,
                  Element element, const ExpectedSegments& expected);

// "" if all `count` elements were written since Poison (none is a NaN). Otherwise names one that
// was not.
std::string FindUnwritten(Device& device, Stream& stream, const void* data, long count,
                          Element element, std::chrono::milliseconds timeout);

// Rows and columns of a matrix that is stored row by row.
struct MatrixView {
  const void* data = nullptr;
  Element element = Element::kFloat32;
  long rows = 0;
  long columns = 0;
  long stride = 0;  // elements from one row to the next, at least `columns`
};
// The same for a matrix: "element [3,5] was not written".
std::string FindUnwritten(Device& device, Stream& stream, const MatrixView& matrix,
                          std::chrono::milliseconds timeout);

}  // namespace overlapbench
