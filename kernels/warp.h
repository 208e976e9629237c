// Warp: what bodies of one warp per block share: sums over its threads, and many loads in flight.
// The host backend has one thread.
#pragma once

#include "device/body.h"

namespace overlapbench {

// The value of the thread whose index differs in the bit `lanes`.
OVERLAPBENCH_BODY inline float Across(float value, [[maybe_unused]] int lanes) {
#ifdef __CUDA_ARCH__
  return __shfl_xor_sync(~0U, value, lanes);
#else
  return value;
#endif
}

// The sum over kMembers neighbouring threads.
template <int kMembers = 32>
OVERLAPBENCH_BODY float SumOverThreads(float value) {
#ifdef __CUDA_ARCH__
  for (int lanes = kMembers / 2; lanes > 0; lanes /= 2) value += Across(value, lanes);
#endif
  return value;
}

// first, first + stride, …, below end.
struct Places {
  long first;
  long stride;
  long end;

  [[nodiscard]] OVERLAPBENCH_BODY long operator[](int i) const { return first + i * stride; }
  [[nodiscard]] OVERLAPBENCH_BODY bool Has(int i) const { return (*this)[i] < end; }
};

// values[i] = load(places[i]), all in flight at once, because a warp alone waits for each. Where
// there is no such place, it loads the last below the end.
template <class Value, int kCount, class Load>
OVERLAPBENCH_BODY void LoadTogether(const Places& places, Value (&values)[kCount], Load load) {
  for (int i = 0; i < kCount; ++i) values[i] = load(places.Has(i) ? places[i] : places.end - 1);
}

}  // namespace overlapbench
