// RoundingError: how far a right result may be from its exact value, for every oracle.
//
// Every stored value and every partial sum is rounded, to at most u times its size (UnitRoundoff).
// An error of a result has two parts:
//
//   own    what the result's own storing adds: at most this share of the result itself, always.
//   walk   the rest: roundings of terms, partial sums and intermediate results. They are
//   independent
//          and have mean 0, so they add up like a random walk: the square root of the sum of their
//          squares (Higham and Mary, "A New Approach to Probabilistic Rounding Error Analysis",
//          2019; for terms of random sign, as the suite's inputs are: "Sharper Probabilistic
//          Backward Error Analysis for Basic Linear Algebra Kernels with Random Data", 2020). It is
//          the standard deviation, relative to the root mean square of the results.
//
// One rounding is uniform within ±u of the value, or of less: its standard deviation is at most u /
// sqrt(3), and its tails are no heavier than a normal distribution's. Where a value becomes a term
// of a sum, its own part therefore joins the walk (AsTerm).
//
//   Sum of k products in float32   Partial sum i is sqrt(i / k) as large as the sum. Rounding them
//       all gives u / sqrt(3) · sqrt(Σ i / k) = u · sqrt(k / 6). Sums of positive numbers are off
//       by less: u / 3 · sqrt(k).
//   The same by tensor cores       They cut off instead of rounding, at most 2^-23 of a partial
//   sum,
//       2^-24 on average, at each addition of at least four products (Fasi, Higham, Mikaitis and
//       Pranesh, "Numerical Behavior of NVIDIA Tensor Cores", 2021). What is cut off has one sign,
//       so it is not a walk: k / 4 · 2^-24 of the result.
//   The same of 8-bit products     Hopper adds 32 products at a time in 14 bits, and moves the sum
//       of 128 to float32 (DeepSeek-AI, "DeepSeek-V3 Technical Report", 2024, 3.3.2): four cuts of
//       at most 2^-13 of such a sum, whose signs differ from sum to sum: 4 · 2^-13.
//   Sum over r ranks               Every partial sum may be stored: number j is sqrt(j / r) as
//       large as the sum, and the last is the result. The same holds for a product whose parts are
//       stored and then added.
//
// A check compares n sampled values with their oracle. It divides each error by the sum of the
// value's size and the sample's root mean square. Limit(n) is what a right result exceeds with a
// probability of at most `alarm`: own + z · walk. A normal error exceeds z standard deviations with
// a probability below 2·exp(−z²/2). The sample's mean square varies like χ²[n] / n, and
// E[2·exp(−z²·χ²[n] / 2n)] = 2·(1 + z²/n)^(−n/2). Each of n values may be the one, so
//
//   z = sqrt(n · (exp(2·ln(2n / alarm) / n) − 1)),
//
// which is sqrt(2·ln(2n / alarm)), the largest of n values, for large n. A row checks fewer than
// 10,000 results; with an alarm of 10^-10 each, fewer than one row in 10^6 fails without a fault.
#pragma once

#include <cstdint>

#include "workload/element.h"

namespace overlapbench {

// The largest relative error of storing a value; 0 for integers.
double UnitRoundoff(Element element);

struct RoundingError {
  double own = 0;
  double walk = 0;

  // The result is stored once more.
  [[nodiscard]] RoundingError Stored(Element element) const;
  // Of a sum of many such values of random signs.
  [[nodiscard]] RoundingError AsTerm() const;
  // With errors that are independent of these.
  [[nodiscard]] RoundingError And(const RoundingError& other) const;

  static constexpr double kAlarm = 1e-10;
  // What the error of none of `values` exceeds, relative to the sum of its size and their root mean
  // square.
  [[nodiscard]] double Limit(long values, double alarm = kAlarm) const;
};

// Of values that are off by the one or by the other.
RoundingError WorseOf(const RoundingError& one, const RoundingError& other);

enum class Adder : std::uint8_t { kFloat32, kTensorCores, kTensorCoresOf8Bits };
// Of a sum of `terms` exact products, before it is stored.
RoundingError ErrorOfSum(long terms, Adder adder = Adder::kFloat32);

// Of the sum of `count` values that are off by `each`, if every partial sum is stored.
RoundingError ErrorOfStoredSums(const RoundingError& each, long count, Element element);

}  // namespace overlapbench
