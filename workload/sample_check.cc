#include "workload/sample_check.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <future>
#include <vector>

namespace overlapbench {
namespace {

struct Position {
  long row = 0;
  long column = 0;
};

Position SampleOf(const MatrixView& matrix, int sample) {
  constexpr int kCorners = 4;
  constexpr std::uint32_t kSeed = 99;
  if (sample < kCorners)
    return {(sample / 2) * (matrix.rows - 1), (sample % 2) * (matrix.columns - 1)};
  return {Random(kSeed, 2L * sample) % matrix.rows,
          Random(kSeed, 2L * sample + 1) % matrix.columns};
}

std::vector<ExpectedValue> Expected(Device& device, const MatrixView& matrix,
                                    const ExpectedElement& expected, const SampleSize& size) {
  std::vector<ExpectedValue> values(size.elements);
  const auto evaluate = [&](int first) {
    for (int sample = first; sample < size.elements; sample += size.threads) {
      const auto [row, column] = SampleOf(matrix, sample);
      values[sample] = expected(row, column);
    }
  };
  std::vector<std::future<void>> others;  // these rethrow what `expected` throws
  for (int thread = 1; thread < size.threads; ++thread)
    others.push_back(std::async(std::launch::async, [&, thread] {
      device.UseInThisThread();  // `expected` may read what the device holds
      evaluate(thread);
    }));
  evaluate(0);
  for (std::future<void>& other : others) other.get();
  return values;
}

// The fault names the worst element.
void Compare(const MatrixView& matrix, long first_row, std::span<const double> values,
             std::span<const ExpectedValue> expected, Verdict& verdict) {
  double square_sum = 0;
  for (const ExpectedValue& one : expected) square_sum += one.value * one.value;
  const double rms = std::sqrt(square_sum / static_cast<double>(values.size()));
  std::size_t worst = 0;
  for (std::size_t i = 0; i < values.size() && !std::isnan(verdict.max_rel_err); ++i) {
    const auto [value, walk] = expected[i];
    const double error = std::abs(values[i] - value) / (std::abs(value) + (walk > 0 ? walk : rms));
    if (error <= verdict.max_rel_err) continue;
    verdict.max_rel_err = error;
    worst = i;
  }
  if (verdict.max_rel_err <= verdict.tolerance) return;
  const auto [row, column] = SampleOf(matrix, static_cast<int>(worst));
  verdict.fault = fmt::format(
      "relative error {:.3g} is above {:.3g}: element [{},{}] is {:.6g}, expected {:.6g}",
      verdict.max_rel_err, verdict.tolerance, first_row + row, column, values[worst],
      expected[worst].value);
}

}  // namespace

int CheckingThreads(const Ranks& ranks) { return std::max(1, static_cast<int>(ranks.cores())); }

std::vector<double> SampledValues(Stream& stream, const MatrixView& matrix,
                                  std::chrono::milliseconds timeout, int samples) {
  const std::size_t bytes = SizeOf(matrix.element);
  std::vector<std::byte> elements(samples * bytes);
  for (int sample = 0; sample < samples; ++sample) {
    const auto [row, column] = SampleOf(matrix, sample);
    const auto* const data = static_cast<const std::byte*>(matrix.data);
    stream.Copy(&elements[sample * bytes], data + (row * matrix.stride + column) * bytes, bytes);
  }
  stream.Synchronize(timeout, "verifying a matrix");
  std::vector<double> values(samples);
  for (int sample = 0; sample < samples; ++sample)
    values[sample] = Load(elements.data(), sample, matrix.element);
  return values;
}

Verdict CheckSample(Device& device, Stream& stream, const MatrixView& matrix,
                    const ExpectedElement& expected, const RoundingError& error,
                    std::chrono::milliseconds timeout, const SampleSize& size) {
  Verdict verdict{0, error.Limit(size.elements), FindUnwritten(device, stream, matrix, timeout)};
  if (!verdict.fault.empty()) return verdict;
  const std::vector<ExpectedValue> wanted = Expected(device, matrix, expected, size);
  Compare(matrix, size.first_row, SampledValues(stream, matrix, timeout, size.elements), wanted,
          verdict);
  return verdict;
}

Verdict CheckSample(Device& device, Stream& stream, const MatrixView& matrix,
                    std::span<const double> expected, const RoundingError& error,
                    std::chrono::milliseconds timeout) {
  Verdict verdict{0, error.Limit(kCheckedElements), FindUnwritten(device, stream, matrix, timeout)};
  const std::vector<ExpectedValue> wanted(expected.begin(), expected.end());
  if (verdict.fault.empty())
    Compare(matrix, 0, SampledValues(stream, matrix, timeout), wanted, verdict);
  return verdict;
}

}  // namespace overlapbench
