#include "kernels/softmax_oracle.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "workload/rounding_error.h"

namespace overlapbench {
namespace {

// The largest absolute error of a result too small for a relative one: half the smallest subnormal,
// or 2^-126 where kernels may write 0, once for the result and once for a temporary.
double ResolutionOf(Element element) { return element == Element::kFloat16 ? 0x1p-24 : 0x1p-125; }

}  // namespace

std::vector<double> SoftmaxOracle(const void* row, long columns, Element element) {
  std::vector<double> values(columns);
  double max = -std::numeric_limits<double>::infinity();
  for (long i = 0; i < columns; ++i) {
    values[i] = Load(row, i, element);
    max = std::fmax(max, values[i]);  // a NaN shows in the sum
  }
  double sum = 0;
  for (double& value : values) sum += value = std::exp(value - max);
  for (double& value : values) value /= sum;
  return values;
}

double SoftmaxError(const std::vector<double>& expected, const void* results, Element element,
                    long* worst) {
  const double resolution = ResolutionOf(element);
  double largest = 0;
  if (worst != nullptr) *worst = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const double got = Load(results, static_cast<long>(i), element);
    double error = std::numeric_limits<double>::infinity();
    const bool both_nan = std::isnan(expected[i]) && std::isnan(got);
    if (both_nan || std::abs(got - expected[i]) <= resolution) {
      error = 0;
    } else if (expected[i] > 0 && !std::isnan(got)) {
      error = (std::abs(got - expected[i]) - resolution) / expected[i];
    }
    if (error <= largest) continue;
    largest = error;
    if (worst != nullptr) *worst = static_cast<long>(i);
  }
  return largest;
}

// With u the type's rounding error and e = 2^-24 that of float32:
//   exponent     x − m, log2 e and their product are rounded: each exponential is off by
//                3·range·e, and so is the sum.
//   exponential  ex2.approx is off by 2^-22 = 4·e (PTX ISA), and so is the sum.
//   sum          The terms are positive: one e for each addition that a term goes through. With
//                262,144 columns and the 1,024 threads of BlockPerRow that is at most 256 in a
//                thread, and 10 in the merges. TwoPass adds 49 times in a thread and corrects its
//                sum 32 times, for 5·e each. Fused holds at most 32 words of a row in a thread and
//                does less of both; that saves more than the 5·e of the second exponential and its
//                product, by which a result is off whose exponential was kept. Unfused adds 1,024
//                times, in 256 threads. Its worst case is larger, but 256·e is 8·√1024·e, and
//                independent errors of mean 0 exceed that with a probability below 10^-10 per
//                thread (Higham and Mary, "A New Approach to Probabilistic Rounding Error
//                Analysis", 2019, theorem 2.4).
//   division     The reciprocal is off by 2^-23, its product by e.
//   result       Rounding it is off by u.
// If exponentials are rounded to the type after the sum, each is off by another u. Unfused rounds
// the differences and the exponentials before the sum: each exponential is off by another range·u +
// u, and so is the sum.
double SoftmaxTolerance(SoftmaxRounding rounding, Element element, double range) {
  const double u = UnitRoundoff(element);
  const double e = UnitRoundoff(Element::kFloat32);
  const double of_result = (2 * (3 * range + 4) + 256 + 10 + 3) * e + u;
  switch (rounding) {
    case SoftmaxRounding::kExponentials:
      return of_result + u;
    case SoftmaxRounding::kSteps:
      return of_result + 2 * (range + 1) * u;
    default:
      return of_result;
  }
}

double SoftmaxTolerance(SoftmaxVariant variant, Element element, double range) {
  const bool unfused = variant == SoftmaxVariant::kUnfused;
  return SoftmaxTolerance(unfused ? SoftmaxRounding::kSteps : SoftmaxRounding::kResult, element,
                          range);
}

}  // namespace overlapbench
