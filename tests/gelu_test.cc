// GELU: the oracle's known values, and every variant against the oracle in each form, type and
// direction, at lengths and starts that leave vectors incomplete, and at special values.
#include "kernels/gelu.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "backends.h"
#include "kernels/gelu_oracle.h"
#include "workload/data.h"
#include "workload/element.h"

namespace overlapbench {
namespace {

using enum GeluVariant;
using enum GeluForm;
using enum GeluDirection;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr std::array kVariants = {kUnfused, kFusedScalar, kFused};
constexpr std::array kFusedVariants = {kFusedScalar, kFused};
constexpr std::array kForms = {kTanh, kErf};
constexpr std::array kDirections = {kForward, kBackward};
constexpr std::array kElements = {Element::kFloat32, Element::kFloat16, Element::kBfloat16};
constexpr std::array kSixteenBits = {Element::kFloat16, Element::kBfloat16};

// Computed with 30 digits by mpmath.
TEST(GeluOracleTest, KnowsValuesAndDerivatives) {
  struct Known {
    GeluForm form;
    double x;
    double value;
    double derivative;
  };
  constexpr std::array<Known, 14> kKnown = {{
      {kTanh, -8, -3.1077829375011112e-21, -4.7147845041068416e-20},
      {kTanh, -3, -0.0036373920817730188, -0.011584166630969726},
      {kTanh, -0.75, -0.1700394448343797, 0.0010617438625857023},
      {kTanh, -0.125, -0.056282801375776612, 0.40078459383720856},
      {kTanh, 0.5, 0.34571400982514392, 0.86736990353464231},
      {kTanh, 2, 1.954597694087775, 1.0860992566236184},
      {kTanh, 6, 5.9999999999156035, 1.0000000007709974},
      {kErf, -8, -4.9767684594174273e-15, -3.979607261086796e-14},
      {kErf, -3, -0.0040496940948902836, -0.011945647204183927},
      {kErf, -0.75, -0.16997051428265115, 0.00077427826076489563},
      {kErf, -0.125, -0.056282721896235888, 0.40078206430179342},
      {kErf, 0.5, 0.34573123063700655, 0.86749512465616284},
      {kErf, 2, 1.9544997361036416, 1.0852318010781969},
      {kErf, 6, 5.9999999940804741, 1.0000000354687095},
  }};
  for (const auto& [form, x, value, derivative] : kKnown) {
    EXPECT_NEAR(GeluValue(form, x), value, 1e-13 * std::abs(value)) << x;
    EXPECT_NEAR(GeluDerivative(form, x), derivative, 1e-12 * std::abs(derivative)) << x;
  }
}

TEST(GeluOracleTest, ApproachesItsLimits) {
  for (const GeluForm form : kForms) {
    EXPECT_EQ(GeluValue(form, kInfinity), kInfinity);
    EXPECT_EQ(GeluValue(form, -kInfinity), 0);
    EXPECT_EQ(GeluDerivative(form, kInfinity), 1);
    EXPECT_EQ(GeluDerivative(form, -kInfinity), 0);
    EXPECT_TRUE(std::isnan(GeluValue(form, kNan)));
    EXPECT_TRUE(std::isnan(GeluDerivative(form, kNan)));
  }
}

// An operation reads one array, or two if it has two operands, and writes one.
TEST(GeluPassesTest, CountsEveryArrayOfAStepOnce) {
  EXPECT_EQ(GeluPasses(kUnfused, kTanh, kForward), 9 * 2 + 3);
  EXPECT_EQ(GeluPasses(kUnfused, kTanh, kBackward), 18 * 2 + 6);
  EXPECT_EQ(GeluPasses(kUnfused, kErf, kForward), 5 * 2 + 1);
  EXPECT_EQ(GeluPasses(kUnfused, kErf, kBackward), 11 * 2 + 3);
  for (const GeluVariant variant : kFusedVariants) {
    for (const GeluForm form : kForms) {
      EXPECT_EQ(GeluPasses(variant, form, kForward), 2);
      EXPECT_EQ(GeluPasses(variant, form, kBackward), 3);
    }
  }
}

class GeluTest : public OnEachBackend {
 protected:
  // A tensor on the device with poisoned guards around it. `stored` is its initial content.
  struct Tensor {
    std::vector<std::byte> stored;
    Buffer buffer;
    std::byte* start = nullptr;
  };
  static constexpr long kGuard = 64;  // elements; also the offsets' base alignment

  Tensor MakeTensor(const std::vector<float>& values, Element element, long offset) {
    const std::size_t size = SizeOf(element);
    std::vector<std::byte> stored((values.size() + offset + 2 * kGuard) * size, std::byte{0xFF});
    for (std::size_t i = 0; i < values.size(); ++i) {
      Store(stored.data(), static_cast<long>(i) + kGuard + offset, element, values[i]);
    }
    Tensor tensor{std::move(stored), {}, nullptr};
    tensor.buffer = device().Allocate(tensor.stored.size(), MemoryKind::kDevice);
    tensor.start = static_cast<std::byte*>(tensor.buffer.data()) + (kGuard + offset) * size;
    stream().Copy(tensor.buffer.data(), tensor.stored.data(), tensor.stored.size());
    return tensor;
  }

  // Where each tensor starts, in elements past an aligned address.
  struct Offsets {
    long input = 0;
    long grad = 0;
    long output = 0;
  };

  // Runs `problem` on the values and leaves its output in output_.
  Verdict Run(GeluProblem problem, const std::vector<float>& x, const std::vector<float>& grad,
              const Offsets& offsets) {
    const std::vector<float> poison(x.size(), kNan);
    const Tensor input = MakeTensor(x, problem.element, offsets.input);
    const Tensor grads = MakeTensor(grad, problem.element, offsets.grad);
    const Tensor scratch = MakeTensor(poison, problem.element, offsets.output);
    const Tensor output = MakeTensor(poison, problem.element, offsets.output);
    problem.tensors = {input.start, grads.start, output.start, scratch.start,
                       static_cast<long>(x.size())};
    LaunchGelu(stream(), problem);
    Verdict verdict = VerifyGelu(device(), stream(), problem, kPatience);
    std::vector<std::byte> stored(output.buffer.bytes());
    stream().Copy(stored.data(), output.buffer.data(), stored.size());
    stream().Synchronize(kPatience, "reading the output");
    output_.clear();
    const long elements = std::ssize(stored) / static_cast<long>(SizeOf(problem.element));
    for (long i = 0; i < elements; ++i) {
      const double value = Load(stored.data(), i, problem.element);
      const long at = i - kGuard - offsets.output;
      if (at >= 0 && at < problem.tensors.count) {
        output_.push_back(value);
      } else {
        EXPECT_TRUE(std::isnan(value)) << "element " << at << " was written";
      }
    }
    return verdict;
  }

  template <class Variants, class Check>
  static void ForEachProblem(const Variants& variants, const Check& check) {
    for (const GeluVariant variant : variants) {
      for (const GeluForm form : kForms) {
        for (const GeluDirection direction : kDirections) {
          for (const Element element : kElements) {
            SCOPED_TRACE("variant " + std::to_string(static_cast<int>(variant)) +
                         (form == kTanh ? " tanh" : " erf") +
                         (direction == kForward ? " forward " : " backward ") + ToString(element));
            check(GeluProblem{variant, form, direction, element, {}});
          }
        }
      }
    }
  }

  static std::vector<float> Values(long count, float reach, std::uint32_t seed) {
    std::vector<float> values;
    for (long i = 0; i < count; ++i) {
      const float fraction = static_cast<float>(Random(seed, i)) * 0x1p-31F - 1;
      values.push_back(reach * fraction);
    }
    return values;
  }

  static std::vector<float> FiniteValues(Element sixteen_bits) {
    std::vector<float> values;
    for (int bits = 0; bits < 1 << 16; ++bits) {
      const std::array<std::uint16_t, 4> stored = {static_cast<std::uint16_t>(bits)};
      const double value = Load(stored.data(), 0, sixteen_bits);
      if (std::isfinite(value)) values.push_back(static_cast<float>(value));
    }
    return values;
  }

  // The largest error of rounding `value` to the type: half a unit in the last place.
  static double HalfUnit(double value, Element sixteen_bits) {
    const bool half = sixteen_bits == Element::kFloat16;
    const int least_exponent = half ? -14 : -126;
    const int exponent = std::max(std::ilogb(value), least_exponent);
    return std::ldexp(0.5, exponent - (half ? 10 : 7));
  }

  std::vector<double> output_;

 private:
};
INSTANTIATE_ON_EACH_BACKEND(GeluTest);

TEST_P(GeluTest, EveryVariantIsCorrect) {
  const auto x = Values(20'011, 6, 1);
  const auto grad = Values(20'011, 2, 2);
  ForEachProblem(kVariants, [&](const GeluProblem& problem) {
    const Verdict verdict = Run(problem, x, grad, {});
    EXPECT_EQ(verdict.fault, "");
    EXPECT_GT(verdict.max_rel_err, 0) << "results are rounded";
  });
}

TEST_P(GeluTest, EveryFiniteSixteenBitValueIsCorrect) {
  for (const Element element : kSixteenBits) {
    const auto x = FiniteValues(element);
    const auto grad = Values(static_cast<long>(x.size()), 1, 3);
    for (const GeluVariant variant : kFusedVariants) {
      for (const GeluForm form : kForms) {
        for (const GeluDirection direction : kDirections) {
          EXPECT_EQ(Run({variant, form, direction, element, {}}, x, grad, {}).fault, "");
        }
      }
    }
  }
}

// Near −0.75, where the derivative crosses zero, a relative error says nothing: what counts is that
// float32 arithmetic adds no more than its own absolute error to the rounding of the result.
TEST_P(GeluTest, DerivativeOfEverySixteenBitValueIsAsExactAsFloat32) {
  constexpr double kMostOfFloat32 = 2e-7;
  for (const Element element : kSixteenBits) {
    const auto x = FiniteValues(element);
    const std::vector<float> ones(x.size(), 1);
    for (const GeluVariant variant : kFusedVariants) {
      for (const GeluForm form : kForms) {
        Run({variant, form, kBackward, element, {}}, x, ones, {});
        double most = 0;
        float worst = 0;
        for (std::size_t i = 0; i < x.size(); ++i) {
          const double expected = GeluDerivative(form, x[i]);
          const double error = std::abs(output_[i] - expected) - HalfUnit(expected, element);
          if (error > most) worst = x[i];
          most = std::max(most, error);
        }
        EXPECT_LE(most, kMostOfFloat32)
            << ToString(element) << (form == kTanh ? " tanh" : " erf") << " where x is " << worst;
        RecordProperty(ToString(element) + (form == kTanh ? "_tanh" : "_erf"),
                       std::to_string(most * 1e9) + "e-9");
      }
    }
  }
}

TEST_P(GeluTest, WritesExactlyItsElementsAtAnyLengthAndOffset) {
  ForEachProblem(kVariants, [&](const GeluProblem& problem) {
    for (const long count : {1L, 2L, 7L, 8L, 9L, 255L, 257L, 4099L}) {
      for (const Offsets& offsets :
           {Offsets{0, 0, 0}, Offsets{1, 1, 1}, Offsets{7, 7, 7}, Offsets{1, 0, 0},
            Offsets{0, 3, 0}, Offsets{0, 0, 5}, Offsets{3, 5, 1}}) {
        const Verdict verdict = Run(problem, Values(count, 3, 4), Values(count, 1, 5), offsets);
        ASSERT_EQ(verdict.fault, "") << count << " elements from " << offsets.input << ", "
                                     << offsets.grad << ", " << offsets.output;
      }
    }
  });
}

// Sizes at which each resident thread takes three vectors, four, and more than fit in one wave.
TEST_P(GeluTest, WritesEveryElementOfOneWave) {
  if (GetParam() == Backend::kHost) GTEST_SKIP() << "there are no waves";
  const double threads = 2048.0 * device().info().multiprocessors;
  for (const Element element : kElements) {
    for (const GeluForm form : kForms) {
      for (const double share : {2.6, 3.7, 4.8}) {
        const long vectors = std::lround(share * threads);
        const auto x = Values(vectors * 16 / static_cast<long>(SizeOf(element)) + 3, 6, 6);
        const GeluProblem problem{GeluVariant::kFused, form, kForward, element, {}};
        EXPECT_EQ(Run(problem, x, {}, {1, 0, 1}).fault, "") << ToString(element) << vectors;
      }
    }
  }
}

TEST_P(GeluTest, SpecialValuesGiveTheirLimits) {
  const std::vector<float> x = {0.0F,     -0.0F,  kInfinity, -kInfinity, kNan,    60000,
                                -60000,   1e30F,  -1e30F,    1e-40F,     -1e-40F, 0x1p-149F,
                                0x1p-24F, -13.3F, -5.6F,     100,        -100};
  const std::vector<float> ones(x.size(), 1);
  ForEachProblem(kFusedVariants, [&](const GeluProblem& problem) {
    EXPECT_EQ(Run(problem, x, ones, {}).fault, "");
    const bool forward = problem.direction == kForward;
    EXPECT_EQ(output_[0], forward ? 0 : 0.5);
    EXPECT_EQ(output_[1], forward ? 0 : 0.5);
    EXPECT_EQ(std::signbit(output_[0]), false);
    EXPECT_EQ(std::signbit(output_[1]), forward) << "gelu(-0) is -0";
    EXPECT_EQ(output_[2], forward ? kInfinity : 1);
    EXPECT_EQ(output_[3], 0);
    EXPECT_TRUE(std::isnan(output_[4]));
    EXPECT_EQ(output_[6], 0);
    EXPECT_EQ(output_[8], 0);
  });
}

TEST_P(GeluTest, WorksInPlace) {
  for (const Element element : kElements) {
    const auto x = Values(1001, 3, 6);
    const Tensor source = MakeTensor(x, element, 1);
    const Tensor tensor = MakeTensor(x, element, 1);
    GeluProblem problem{
        kFused, kErf, kForward, element, {tensor.start, nullptr, tensor.start, nullptr, 1001}};
    LaunchGelu(stream(), problem);
    problem.tensors.input = source.start;
    EXPECT_EQ(VerifyGelu(device(), stream(), problem, kPatience).fault, "");
  }
}

TEST_P(GeluTest, VerificationRefusesSmallErrorsAndNaN) {
  const auto x = Values(5000, 4, 7);
  ForEachProblem(kFusedVariants, [&](GeluProblem problem) {
    if (problem.direction == kBackward) return;
    const double step = problem.element == Element::kFloat32 ? 1e-5 : 0.02;
    for (const std::size_t spoilt : {0UL, 2500UL, 4999UL}) {
      std::vector<float> y;
      for (const float value : x) {
        std::array<std::byte, 8> stored{};
        Store(stored.data(), 0, problem.element, value);
        const double as_stored = Load(stored.data(), 0, problem.element);
        y.push_back(static_cast<float>(GeluValue(problem.form, as_stored)));
      }
      const auto off = static_cast<float>(y[spoilt] + step * (std::abs(y[spoilt]) + 1e-2));
      for (const float wrong :
           {off, std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
        y[spoilt] = wrong;
        const Tensor input = MakeTensor(x, problem.element, 0);
        const Tensor output = MakeTensor(y, problem.element, 0);
        problem.tensors = {input.start, nullptr, output.start, nullptr, 5000};
        const std::string fault = VerifyGelu(device(), stream(), problem, kPatience).fault;
        EXPECT_EQ(fault.find("element " + std::to_string(spoilt) + " of 5000 is "), 0U) << fault;
      }
    }
  });
}

}  // namespace
}  // namespace overlapbench
