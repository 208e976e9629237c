// The oracle of every softmax: one row in double precision, and how far a result may be from it.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/softmax.h"

namespace overlapbench {

// The softmax of `columns` elements. A row that holds a NaN or +infinity, or nothing but −infinity,
// is all NaN.
std::vector<double> SoftmaxOracle(const void* row, long columns, Element element);

// The largest relative error of a row of results. What the type cannot tell from the expected value
// is no error: its smallest subnormal, or 2^-125 since kernels may write 0 for what is below
// 2^-126. Infinite where one is NaN and the other is not. `worst` (may be null) is the column.
double SoftmaxError(const std::vector<double>& expected, const void* results, Element element,
                    long* worst);

// What is rounded to the matrix's type.
enum class SoftmaxRounding : std::uint8_t {
  kResult,        // nothing else
  kExponentials,  // and the exponentials, once they are summed
  kSteps,         // and what each step leaves to the next
};

// The largest relative error of a right result, where `range` is the largest finite difference
// between a row's maximum and an element that does not vanish. Derived in the source.
double SoftmaxTolerance(SoftmaxRounding rounding, Element element, double range);
double SoftmaxTolerance(SoftmaxVariant variant, Element element, double range);

}  // namespace overlapbench
