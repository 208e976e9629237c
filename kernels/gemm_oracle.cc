#include "kernels/gemm_oracle.h"

#include "workload/sample_check.h"

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

}  // namespace

Verdict VerifyGemm(Device& device, Stream& stream, const void* c, const GemmProblem& problem,
                   std::chrono::milliseconds timeout, int threads) {
  const MatrixView computed{c, problem.element_c, problem.m, problem.n, problem.c_columns};
  const auto expected = [&](long row, long column) { return Oracle(problem, row, column); };
  return CheckSample(device, stream, computed, expected, problem.error, timeout,
                     {.threads = threads});
}

}  // namespace overlapbench
