// What L2Kernel and SharedKernel have in common: 16 bytes as a thread reads them, and the order.
//
// The slots of what is read form a ring. A reader starts at a slot of its own and moves on by one
// slot a step, so that no two steps of a reader are alike and all readers together read evenly. The
// result of a reader is the sum of the words it read, modulo 2^32: exact in any order.
#pragma once

#include <cstdint>

#include "workload/data.h"

namespace overlapbench::ring {

// What a thread loads at once.
struct alignas(16) Quad {
  std::uint32_t words[4];

  [[nodiscard]] OVERLAPBENCH_BODY std::uint32_t Sum() const {
    return words[0] + words[1] + (words[2] + words[3]);
  }
};

// The buffers hold whole numbers from 1 to kMost, as FillIntegers makes them.
constexpr int kMost = 256;

// The sum of quad number `index` of a buffer.
[[nodiscard]] OVERLAPBENCH_BODY inline std::uint32_t SumOfQuad(std::uint32_t seed, long index) {
  std::uint32_t sum = 0;
  for (long word = 4 * index; word < 4 * index + 4; ++word)
    sum += static_cast<std::uint32_t>(RandomInteger(seed, word, kMost));
  return sum;
}

// How often a reader that starts at slot `first` of `slots` visits `slot` in `steps` steps.
[[nodiscard]] OVERLAPBENCH_BODY inline long Visits(long slots, long first, long steps, long slot) {
  const long after = (slot - first + slots) % slots;
  return steps / slots + (after < steps % slots ? 1 : 0);
}

// The sum as an int32 holds it.
[[nodiscard]] OVERLAPBENCH_BODY inline double AsInt32(std::uint32_t sum) {
  return static_cast<double>(static_cast<std::int32_t>(sum));
}

}  // namespace overlapbench::ring
