// Checks a matrix on the device at a sample of its elements, for results whose oracle is expensive.
//
// The device checks that every element was written. The host compares some elements, including the
// corners, in double precision. Errors are relative to the sample's root mean square, so that an
// element that happens to be near 0 does not stand out.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "ranks/ranks.h"
#include "workload/data.h"

namespace overlapbench {

constexpr int kCheckedElements = 256;

// How many threads of a rank compute expected values: its share of the machine's cores.
int CheckingThreads(const Ranks& ranks);

// Waits for `stream`. SampleSize::threads threads call `expected` concurrently.
using ExpectedElement = std::function<double(long row, long column)>;
struct SampleSize {
  int elements = kCheckedElements;
  int threads = 1;
  long first_row = 0;  // what messages call the matrix's first row, if it is part of a larger one
};
Verdict CheckSample(Device& device, Stream& stream, const MatrixView& matrix,
                    const ExpectedElement& expected, double tolerance,
                    std::chrono::milliseconds timeout, const SampleSize& size = {});

// The same with expected values from elsewhere: kCheckedElements of them, in the order in which
// SampledValues returns those of a matrix of this size.
Verdict CheckSample(Device& device, Stream& stream, const MatrixView& matrix,
                    std::span<const double> expected, double tolerance,
                    std::chrono::milliseconds timeout);
std::vector<double> SampledValues(Stream& stream, const MatrixView& matrix,
                                  std::chrono::milliseconds timeout,
                                  int samples = kCheckedElements);

}  // namespace overlapbench
