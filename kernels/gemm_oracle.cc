#include "kernels/gemm_oracle.h"

#include <algorithm>
#include <cmath>
#include <sstream>
#include <vector>

namespace overlapbench {
namespace {

double Oracle(const GemmProblem& problem, long row, long column) {
  const auto input = [&](std::uint32_t seed, long index) {
    return Held(RandomFraction(seed, index), problem.element_ab);
  };
  double sum = 0;
  for (long i = 0; i < problem.k; ++i) {
    const long b_index =
        problem.b_transposed ? column * problem.k + i : i * problem.b_columns + column;
    sum += input(problem.seed_a, row * problem.k + i) * input(problem.seed_b, b_index);
  }
  return sum;
}

std::string FirstUnwritten(const GemmProblem& problem, const std::vector<std::byte>& c) {
  for (long row = 0; row < problem.m; ++row) {
    for (long column = 0; column < problem.n; ++column) {
      if (std::isnan(Load(c.data(), row * problem.c_columns + column, problem.element_c))) {
        return "C[" + std::to_string(row) + "," + std::to_string(column) + "] was not written";
      }
    }
  }
  return "";
}

}  // namespace

Verdict VerifyGemm(Stream& stream, const void* c, const GemmProblem& problem,
                   std::chrono::milliseconds timeout) {
  constexpr int kSamples = 256;
  constexpr std::uint32_t kSampleSeed = 99;
  std::vector<std::byte> host_c(problem.m * problem.c_columns * SizeOf(problem.element_c));
  stream.Copy(host_c.data(), c, host_c.size());
  stream.Synchronize(timeout, "verifying a matrix product");

  Verdict verdict{0, problem.tolerance, FirstUnwritten(problem, host_c)};
  if (!verdict.fault.empty()) return verdict;
  double largest_error = 0;
  double square_sum = 0;
  for (int sample = 0; sample < kSamples; ++sample) {
    const bool corner = sample < 4;
    const long row =
        corner ? (sample / 2) * (problem.m - 1) : Random(kSampleSeed, 2L * sample) % problem.m;
    const long column =
        corner ? (sample % 2) * (problem.n - 1) : Random(kSampleSeed, 2L * sample + 1) % problem.n;
    const double expected = Oracle(problem, row, column);
    const double got = Load(host_c.data(), row * problem.c_columns + column, problem.element_c);
    largest_error = std::max(largest_error, std::abs(got - expected));
    square_sum += expected * expected;
  }
  verdict.max_rel_err = largest_error / std::sqrt(square_sum / kSamples);
  if (!(verdict.max_rel_err <= verdict.tolerance)) {
    std::ostringstream text;
    text << "relative error " << verdict.max_rel_err << " is above " << verdict.tolerance;
    verdict.fault = text.str();
  }
  return verdict;
}

}  // namespace overlapbench
