// The kernels between a network's products, on each backend, against double precision: every
// element, in every type, at sizes that fill no block, one, and many.
#include "kernels/mlp.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "backends.h"
#include "kernels/gelu_oracle.h"
#include "kernels/mlp_oracle.h"
#include "workload/data.h"

namespace overlapbench {
namespace {

struct Format {
  Element element;
  double rounding;  // half a unit in the last place
};
constexpr std::array<Format, 3> kFormats = {
    {{Element::kFloat32, 0x1p-24}, {Element::kFloat16, 0x1p-11}, {Element::kBfloat16, 0x1p-8}}};
constexpr std::array<MatrixSize, 3> kSizes = {{{16, 16}, {48, 80}, {300, 512}}};

class MlpLayersTest : public OnEachBackend {
 protected:
  Buffer Fractions(long count, Element element, std::uint32_t seed) {
    Buffer buffer = device().Allocate(count * SizeOf(element), MemoryKind::kDevice);
    FillFractions(stream(), buffer.data(), count, element, seed);
    return buffer;
  }
  Buffer Poisoned(long count, Element element) {
    Buffer buffer = device().Allocate(count * SizeOf(element), MemoryKind::kDevice);
    Poison(stream(), buffer.data(), buffer.bytes());
    return buffer;
  }
  std::vector<double> Read(const Buffer& buffer, Element element) {
    std::vector<std::byte> bytes(buffer.bytes());
    stream().Copy(bytes.data(), buffer.data(), bytes.size());
    Finish();
    std::vector<double> values(bytes.size() / SizeOf(element));
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = Load(bytes.data(), static_cast<long>(i), element);
    return values;
  }

  // Calls check(size, format) for all of them.
  template <class Check>
  void ForEach(const Check& check) {
    for (const auto& size : kSizes) {
      for (const auto& format : kFormats) {
        SCOPED_TRACE(std::to_string(size.rows) + "x" + std::to_string(size.columns) + " " +
                     ToString(format.element));
        check(size, format);
        if (HasFailure()) return;
      }
    }
  }
};
INSTANTIATE_ON_EACH_BACKEND(MlpLayersTest);

// Float32 arithmetic adds a few roundings of its own.
constexpr double kArithmetic = 1e-6;

TEST_P(MlpLayersTest, AddTheBiasAndApplyGelu) {
  ForEach([this](const MatrixSize& size, const Format& format) {
    const auto [element, rounding] = format;
    const long count = size.rows * size.columns;
    const Buffer z = Fractions(count, element, 1);
    const Buffer bias = Fractions(size.columns, element, 2);
    const Buffer x = Poisoned(count, element);
    EnqueueBiasGelu(stream(), element, size, z.data(), bias.data(), x.data());
    const auto sums = Read(z, element);
    const auto values = Read(x, element);
    for (long i = 0; i < count; ++i) {
      const double sum =
          static_cast<double>(RandomFraction(1, i)) + RandomFraction(2, i % size.columns);
      ASSERT_NEAR(sums[i], sum, rounding * std::abs(sum)) << i;
      const double value = GeluValue(GeluForm::kTanh, sum);
      ASSERT_NEAR(values[i], value, rounding * std::abs(value) + kArithmetic) << i;
    }
  });
}

TEST_P(MlpLayersTest, AddTheBiasAlone) {
  ForEach([this](const MatrixSize& size, const Format& format) {
    const auto [element, rounding] = format;
    const Buffer z = Fractions(size.rows * size.columns, element, 1);
    const Buffer bias = Fractions(size.columns, element, 2);
    EnqueueBiasGelu(stream(), element, size, z.data(), bias.data(), nullptr);
    const auto sums = Read(z, element);
    for (long i = 0; i < size.rows * size.columns; ++i) {
      const double sum =
          static_cast<double>(RandomFraction(1, i)) + RandomFraction(2, i % size.columns);
      ASSERT_NEAR(sums[i], sum, rounding * std::abs(sum)) << i;
    }
  });
}

TEST_P(MlpLayersTest, MultiplyByTheDerivativeAndSumOverRows) {
  ForEach([this](const MatrixSize& size, const Format& format) {
    const auto [element, rounding] = format;
    const long count = size.rows * size.columns;
    const Buffer gradient = Fractions(count, element, 1);
    const Buffer z = Fractions(count, element, 2);
    const Buffer bias_gradient = Poisoned(size.columns, element);
    const Buffer scratch = device().Allocate(BiasScratchBytes(size), MemoryKind::kDevice);
    EnqueueGeluBackward(stream(), element, size, gradient.data(), z.data(), bias_gradient.data(),
                        scratch.data());
    const auto products = Read(gradient, element);
    const auto sums = Read(bias_gradient, element);
    std::vector<double> expected(size.columns);
    for (long i = 0; i < count; ++i) {
      const double product =
          RandomFraction(1, i) * GeluDerivative(GeluForm::kTanh, RandomFraction(2, i));
      ASSERT_NEAR(products[i], product, rounding * std::abs(product) + kArithmetic) << i;
      expected[i % size.columns] += products[i];
    }
    for (long i = 0; i < size.columns; ++i) {
      const double sum_rounding = kArithmetic * static_cast<double>(size.rows);
      ASSERT_NEAR(sums[i], expected[i], rounding * std::abs(expected[i]) + sum_rounding) << i;
    }
  });
}

TEST_P(MlpLayersTest, SumOverRowsAlone) {
  ForEach([this](const MatrixSize& size, const Format& format) {
    const auto [element, rounding] = format;
    const long count = size.rows * size.columns;
    const Buffer gradient = Fractions(count, element, 1);
    const Buffer bias_gradient = Poisoned(size.columns, element);
    const Buffer scratch = device().Allocate(BiasScratchBytes(size), MemoryKind::kDevice);
    EnqueueGeluBackward(stream(), element, size, gradient.data(), nullptr, bias_gradient.data(),
                        scratch.data());
    const auto sums = Read(bias_gradient, element);
    std::vector<double> expected(size.columns);
    for (long i = 0; i < count; ++i) expected[i % size.columns] += RandomFraction(1, i);
    // Multiples of 1/128 are summed exactly.
    for (long i = 0; i < size.columns; ++i)
      ASSERT_NEAR(sums[i], expected[i], rounding * std::abs(expected[i])) << i;
    EXPECT_EQ(Read(gradient, element)[0], RandomFraction(1, 0)) << "it was changed";
  });
}

TEST_P(MlpLayersTest, UpdateAgainstTheGradient) {
  constexpr float kRate = 0.125F;
  ForEach([this](const MatrixSize& size, const Format& format) {
    const auto [element, rounding] = format;
    const long count = size.rows * size.columns;
    const Buffer parameters = Fractions(count, element, 1);
    const Buffer gradients = Fractions(count, element, 2);
    const Buffer updated = Poisoned(count, element);
    EnqueueUpdate(stream(), element, count, updated.data(), parameters.data(), gradients.data(),
                  kRate);
    const auto values = Read(updated, element);
    for (long i = 0; i < count; ++i) {
      const double value = static_cast<double>(RandomFraction(1, i)) - kRate * RandomFraction(2, i);
      ASSERT_NEAR(values[i], value, rounding * std::abs(value)) << i;
    }
  });
}

TEST_P(MlpLayersTest, MakeTheOraclesParameters) {
  const MlpProblem problem{48, 2, 16, 1};
  const auto expected = RandomMlpInputs(problem).parameters;
  for (const auto& format : kFormats) {
    const Buffer parameters = Poisoned(problem.parameter_count(), format.element);
    EnqueueMlpParameters(stream(), format.element, problem, parameters.data());
    EXPECT_EQ(Read(parameters, format.element), expected) << ToString(format.element);
  }
}

}  // namespace
}  // namespace overlapbench
