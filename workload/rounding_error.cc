#include "workload/rounding_error.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace overlapbench {

double UnitRoundoff(Element element) {
  switch (element) {
    case Element::kFloat32:
      return 0x1p-24;
    case Element::kFloat16:
      return 0x1p-11;
    case Element::kBfloat16:
      return 0x1p-8;
    case Element::kFloat64:
      return 0x1p-53;
    case Element::kFloat8:
      return 0x1p-3;  // it is cut off
    case Element::kInt32:
      return 0;
  }
  return 0;
}

RoundingError RoundingError::Stored(Element element) const {
  return {own + UnitRoundoff(element), walk};
}

RoundingError RoundingError::AsTerm() const {
  return {0, std::hypot(own / std::numbers::sqrt3, walk)};
}

RoundingError RoundingError::And(const RoundingError& other) const {
  return {own + other.own, std::hypot(walk, other.walk)};
}

double RoundingError::Limit(long values, double alarm) const {
  const auto n = static_cast<double>(values);
  return own + walk * std::sqrt(n * std::expm1(2 * std::log(2 * n / alarm) / n));
}

RoundingError WorseOf(const RoundingError& one, const RoundingError& other) {
  return {std::max(one.own, other.own), std::max(one.walk, other.walk)};
}

RoundingError ErrorOfSum(long terms, Adder adder) {
  constexpr double kUnit = 0x1p-24;  // of float32
  const auto count = static_cast<double>(terms);
  const double walk = kUnit * std::sqrt(count / 6);
  switch (adder) {
    case Adder::kFloat32:
      return {0, walk};
    case Adder::kTensorCores:
      return {count / 4 * kUnit, walk};
    case Adder::kTensorCoresOf8Bits:
      return {0, std::hypot(4 * 0x1p-13, walk)};
  }
  return {};
}

RoundingError ErrorOfStoredSums(const RoundingError& each, long count, Element element) {
  const auto all = static_cast<double>(count);
  // 2 + 3 + … + (count − 1) of `count`: the first is one of the values, the last is the result.
  const double stored_before = count < 2 ? 0 : ((all - 1) * all / 2 - 1) / all;
  const double unit = UnitRoundoff(element);
  if (count < 2) return each;
  return each.AsTerm().And({unit, unit * std::sqrt(stored_before / 3)});
}

}  // namespace overlapbench
