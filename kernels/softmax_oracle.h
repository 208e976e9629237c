// The oracle of every softmax: one row in double precision, and how far a result may be from it.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/softmax.h"

namespace overlapbench {

// The softmax of `columns` elements. A row that holds a NaN or +infinity, or nothing but −infinity,
// is all NaN.
std::vector<double> SoftmaxOracle(const void* row, long columns, Element element);

// The largest relative error of a row of results; `worst` (may be null) is its column. A difference
// that the type cannot represent is no error: its smallest subnormal, or 2^-125 because kernels may
// write 0 for results below 2^-126. The error is infinite if only one of the two is NaN.
double SoftmaxError(const std::vector<double>& expected, const void* results, Element element,
                    long* worst);

// What a softmax rounds to the matrix's type.
enum class SoftmaxRounding : std::uint8_t {
  kResult,        // the result only
  kExponentials,  // the result, and the exponentials after they are summed
  kSteps,         // the result of every step
};

// The largest relative error that a correct result may have. `range` is the largest finite
// difference between a row's maximum and an element whose result is not 0. The source derives it.
double SoftmaxTolerance(SoftmaxRounding rounding, Element element, double range);
double SoftmaxTolerance(SoftmaxVariant variant, Element element, double range);

}  // namespace overlapbench
