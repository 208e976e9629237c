// RoundingError against simulated arithmetic: right results are almost never refused, and a fault
// of the smallest kind that a check must find is.
//
// False alarms of one in 10^10 cannot be counted. What is counted is how often errors exceed 1, 2,
// 3 and 4 standard deviations, each against the normal distribution's bound. The roundings are
// bounded and independent, so their sums' tails fall at least as fast beyond what was counted.
#include "workload/rounding_error.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "workload/data.h"
#include "workload/element.h"

namespace overlapbench {
namespace {

constexpr int kSamples = 256;

float Rounded(float value, Element element) {
  std::byte room[sizeof(float)] = {};
  Store(room, 0, element, value);
  return LoadFloat(room, 0, element);
}

struct Value {
  double exact = 0;
  float computed = 0;
};

// A way to compute sums, with what it adds and what may be missing.
struct Arithmetic {
  std::string name;
  Element element = Element::kBfloat16;
  long terms = 0;  // of each rank
  int ranks = 1;
  Adder adder = Adder::kFloat32;
  bool stored_terms = false;  // one factor was stored in the element type before

  [[nodiscard]] RoundingError Error() const {
    RoundingError error = ErrorOfSum(terms, adder);
    if (stored_terms) error = error.And(RoundingError().Stored(element).AsTerm());
    return ErrorOfStoredSums(error.Stored(element), ranks, element);
  }
};

class Simulation {
 public:
  explicit Simulation(Arithmetic arithmetic) : arithmetic_(std::move(arithmetic)) {}

  // Without the last `missing` terms of the last rank.
  Value Next(long missing = 0) {
    Value sum;
    for (int rank = 0; rank < arithmetic_.ranks; ++rank) {
      const bool is_last = rank == arithmetic_.ranks - 1;
      const Value own = Sum(is_last ? missing : 0);
      sum.exact += own.exact;
      if (is_last && missing == arithmetic_.terms) break;
      const float stored = Rounded(own.computed, arithmetic_.element);
      sum.computed = Rounded(sum.computed + stored, arithmetic_.element);
    }
    return sum;
  }
  std::vector<Value> Sample(long missing = 0) {
    std::vector<Value> values;
    for (int i = 0; i < kSamples; ++i) values.push_back(Next(missing));
    return values;
  }

 private:
  Value Sum(long missing) {
    Value sum;
    for (long i = 0; i < arithmetic_.terms; ++i) {
      const float left = NextInput();
      const float a = arithmetic_.stored_terms ? Rounded(left, arithmetic_.element) : left;
      const float b = NextInput();
      sum.exact += static_cast<double>(left) * b;
      if (i >= arithmetic_.terms - missing) continue;
      products_ += static_cast<double>(a) * b;
      if (arithmetic_.adder == Adder::kFloat32 || i % 4 == 3) sum.computed = Added(sum.computed);
    }
    return sum;
  }
  float Added(float sum) {
    const double exact = sum + std::exchange(products_, 0.0);
    const auto rounded = static_cast<float>(exact);
    if (arithmetic_.adder == Adder::kFloat32 || std::abs(rounded) <= std::abs(exact))
      return rounded;
    return std::nextafter(rounded, 0.0F);  // cut off
  }
  // In (-1, 1), with all the bits of a float: sums of products of RandomFraction would be exact.
  float NextInput() { return static_cast<float>(Random(1, next_++) >> 8) * 0x1p-23F - 1; }

  Arithmetic arithmetic_;
  long next_ = 0;
  double products_ = 0;
};

// |error| / (size + root mean square)
std::vector<double> ErrorsOf(const std::vector<Value>& values) {
  double squares = 0;
  for (const Value& value : values) squares += value.exact * value.exact;
  const double rms = std::sqrt(squares / static_cast<double>(values.size()));
  std::vector<double> errors;
  for (const auto& [exact, computed] : values)
    errors.push_back(std::abs(computed - exact) / (std::abs(exact) + rms));
  return errors;
}

std::vector<Arithmetic> Arithmetics() {
  using enum Element;
  std::vector<Arithmetic> all = {{"float32", kFloat32, 1024},
                                 {"tensor cores", kFloat32, 1024, 1, Adder::kTensorCores},
                                 {"bfloat16", kBfloat16, 512, 1, Adder::kTensorCores},
                                 {"float16", kFloat16, 512, 1, Adder::kTensorCores},
                                 {"stored terms", kBfloat16, 256, 1, Adder::kFloat32, true}};
  for (const int ranks : {2, 3, 4, 8, 64})
    for (const Element element : {kFloat32, kBfloat16})
      all.push_back({"ranks " + std::to_string(ranks), element, 16, ranks});
  return all;
}

TEST(RoundingErrorTest, RightResultsExceedALimitNoMoreOftenThanAgreed) {
  constexpr int kChecks = 40;
  for (const Arithmetic& arithmetic : Arithmetics()) {
    SCOPED_TRACE(arithmetic.name + " in " + ToString(arithmetic.element));
    const RoundingError error = arithmetic.Error();
    Simulation simulation(arithmetic);
    double largest = 0;
    int beyond[5] = {};
    for (int check = 0; check < kChecks; ++check) {
      for (const double one : ErrorsOf(simulation.Sample())) {
        largest = std::max(largest, one);
        for (int z = 1; z < 5; ++z)
          if (one > error.own + z * error.walk) ++beyond[z];
      }
    }
    for (int z = 1; z < 5; ++z)
      EXPECT_LE(beyond[z], 2 * std::exp(-z * z / 2.0) * kChecks * kSamples) << z;
    const double limit = error.Limit(kSamples);
    RecordProperty(arithmetic.name + " in " + ToString(arithmetic.element),
                   std::to_string(largest / limit));
    EXPECT_LT(largest, limit);
    EXPECT_GT(largest, limit / 8) << "a limit far above all errors finds little";
  }
}

// One rank's share, or the last 16 terms of a sum, which is one step of a tensor core.
TEST(RoundingErrorTest, AMissingShareIsFound) {
  for (Arithmetic arithmetic : Arithmetics()) {
    SCOPED_TRACE(arithmetic.name + " in " + ToString(arithmetic.element));
    if (arithmetic.ranks == 1) arithmetic.terms *= 8;
    Simulation simulation(arithmetic);
    for (int check = 0; check < 2; ++check) {
      const double limit = arithmetic.Error().Limit(kSamples);
      EXPECT_GT(std::ranges::max(ErrorsOf(simulation.Sample(16))), limit);
      EXPECT_LE(std::ranges::max(ErrorsOf(simulation.Sample())), limit);
    }
  }
}

TEST(RoundingErrorTest, IsDerivedFromTypeTermsRanksValuesAndAlarm) {
  constexpr double kUnit = 1.0 / 256;
  using enum Element;
  for (const auto& [element, unit] : {std::pair{kFloat64, 0x1p-53},
                                      {kFloat32, 0x1p-24},
                                      {kFloat16, 1.0 / 2048},
                                      {kBfloat16, kUnit},
                                      {kFloat8, 1.0 / 8},
                                      {kInt32, 0.0}})
    EXPECT_EQ(UnitRoundoff(element), unit) << ToString(element);
  EXPECT_DOUBLE_EQ(ErrorOfSum(600).walk, 10 * 0x1p-24);
  EXPECT_EQ(ErrorOfSum(600).own, 0);
  EXPECT_DOUBLE_EQ(ErrorOfSum(600, Adder::kTensorCores).own, 150 * 0x1p-24);
  // 2 + 3 of 4 partial sums are stored before the result, and so was each rank's share.
  const RoundingError sum = ErrorOfStoredSums(RoundingError().Stored(kBfloat16), 4, kBfloat16);
  EXPECT_DOUBLE_EQ(sum.own, kUnit);
  EXPECT_DOUBLE_EQ(sum.walk, kUnit * std::sqrt((1 + 1.25) / 3));
  EXPECT_DOUBLE_EQ(ErrorOfStoredSums({0.5, 0.25}, 1, kBfloat16).walk, 0.25) << "nothing is added";
  // The largest of more values is larger; a known scale needs sqrt(2 ln(2n / alarm)).
  const RoundingError walk{0, 1};
  EXPECT_NEAR(walk.Limit(1L << 40, 1e-6), std::sqrt(2 * std::log(std::ldexp(1e6, 41))), 1e-3);
  EXPECT_GT(walk.Limit(256, 1e-9), walk.Limit(256, 1e-6));
  EXPECT_GT(walk.Limit(16), walk.Limit(256)) << "16 values hardly tell their root mean square";
  EXPECT_LT(walk.Limit(1 << 16), walk.Limit(1 << 24));
}

}  // namespace
}  // namespace overlapbench
