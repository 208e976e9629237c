// Checks a matrix on the device at a sample of its elements, for results whose oracle is expensive.
//
// The device checks that every element was written. The host compares some elements, including the
// corners, in double precision. An error is relative to the sum of the expected value's size and
// the sample's root mean square, so that neither an element near 0 nor a large one stands out.
// RoundingError::Limit says how large it may be.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "ranks/ranks.h"
#include "workload/data.h"
#include "workload/rounding_error.h"

namespace overlapbench {

constexpr int kCheckedElements = 256;

// How many threads of a rank compute expected values: its share of the machine's cores.
int CheckingThreads(const Ranks& ranks);

struct ExpectedValue {
  // NOLINTNEXTLINE(google-explicit-constructor): most values are nothing but a number
  ExpectedValue(double expected = 0, double root_sum = 0) : value(expected), walk(root_sum) {}
  double value;
  // The root of the sum of its terms' squares, where it differs from element to element; else 0,
  // for the sample's root mean square.
  double walk;
};

// Waits for `stream`. SampleSize::threads threads call `expected` concurrently.
using ExpectedElement = std::function<ExpectedValue(long row, long column)>;
struct SampleSize {
  int elements = kCheckedElements;
  int threads = 1;
  long first_row = 0;  // what messages call the matrix's first row, if it is part of a larger one
};
Verdict CheckSample(Device& device, Stream& stream, const MatrixView& matrix,
                    const ExpectedElement& expected, const RoundingError& error,
                    std::chrono::milliseconds timeout, const SampleSize& size = {});

// The same with expected values from elsewhere: kCheckedElements of them, in the order in which
// SampledValues returns those of a matrix of this size.
Verdict CheckSample(Device& device, Stream& stream, const MatrixView& matrix,
                    std::span<const double> expected, const RoundingError& error,
                    std::chrono::milliseconds timeout);
std::vector<double> SampledValues(Stream& stream, const MatrixView& matrix,
                                  std::chrono::milliseconds timeout,
                                  int samples = kCheckedElements);

}  // namespace overlapbench
