// The oracle of matrix products accepts a right C, and refuses one that is wrong or unwritten in
// any place where a faulty kernel would leave it so.
#include "kernels/gemm_oracle.h"

#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "backends.h"

namespace overlapbench {
namespace {

GemmProblem SmallProblem() {
  GemmProblem problem;
  problem.m = 32;
  problem.n = 48;
  problem.k = 40;
  problem.b_columns = 56;
  problem.c_columns = 64;
  problem.error = {1e-6};
  return problem;
}

// A triple loop over matrices that are really stored; the oracle stores none.
std::vector<float> RightC(const GemmProblem& problem) {
  std::vector<double> a(problem.m * problem.k);
  std::vector<double> b(problem.k * problem.b_columns);
  for (std::size_t i = 0; i < a.size(); ++i)
    a[i] = Held(RandomFraction(problem.seed_a, static_cast<long>(i)), problem.element_ab);
  for (std::size_t i = 0; i < b.size(); ++i)
    b[i] = Held(RandomFraction(problem.seed_b, static_cast<long>(i)), problem.element_ab);
  std::vector<float> c(problem.m * problem.c_columns, std::numeric_limits<float>::quiet_NaN());
  for (long row = 0; row < problem.m; ++row) {
    for (long column = 0; column < problem.n; ++column) {
      double sum = 0;
      for (long i = 0; i < problem.k; ++i) {
        const long b_index =
            problem.b_transposed ? column * problem.k + i : i * problem.b_columns + column;
        sum += a[row * problem.k + i] * b[b_index];
      }
      c[row * problem.c_columns + column] = static_cast<float>(sum);
    }
  }
  return c;
}

class GemmOracleTest : public OnEachBackend {
 protected:
  Verdict Verify(const std::vector<float>& c, const GemmProblem& problem) {
    const auto stream = device().CreateStream();
    std::vector<std::byte> stored(c.size() * SizeOf(problem.element_c));
    for (std::size_t i = 0; i < c.size(); ++i) {
      Store(stored.data(), static_cast<long>(i), problem.element_c, c[i]);
    }
    const Buffer buffer = device().Allocate(stored.size(), MemoryKind::kDevice);
    stream->Copy(buffer.data(), stored.data(), stored.size());
    constexpr int kThreads = 3;
    return VerifyGemm(device(), *stream, buffer.data(), problem, kPatience, kThreads);
  }

  const GemmProblem problem_ = SmallProblem();
  std::vector<float> c_ = RightC(problem_);
  float& C(long row, long column) { return c_[row * problem_.c_columns + column]; }
};
INSTANTIATE_ON_EACH_BACKEND(GemmOracleTest);

TEST_P(GemmOracleTest, AcceptsTheCorrectResult) {
  const Verdict verdict = Verify(c_, problem_);
  EXPECT_EQ(verdict.fault, "");
  EXPECT_LE(verdict.max_rel_err, 1e-7);
  EXPECT_EQ(verdict.tolerance, 1e-6);
}

TEST_P(GemmOracleTest, AcceptsTheCorrectResultInFloat16AndBfloat16) {
  for (const Element element : {Element::kFloat16, Element::kBfloat16}) {
    GemmProblem problem = problem_;
    problem.element_c = element;
    problem.error = {0.02};
    const Verdict verdict = Verify(c_, problem);
    EXPECT_EQ(verdict.fault, "");
    EXPECT_GT(verdict.max_rel_err, 1e-5) << "the result was stored in few bits";
    problem.error = {1e-5};
    EXPECT_NE(Verify(c_, problem).fault, "");
  }
}

TEST_P(GemmOracleTest, HandlesFloat8InputsAndTransposedB) {
  GemmProblem problem = problem_;
  problem.element_ab = Element::kFloat8;
  problem.b_transposed = true;
  EXPECT_EQ(Verify(RightC(problem), problem).fault, "");
  EXPECT_NE(Verify(c_, problem).fault, "") << "the product of the uncut inputs";
  GemmProblem straight = problem;
  straight.b_transposed = false;
  EXPECT_NE(Verify(RightC(straight), problem).fault, "");
}

TEST_P(GemmOracleTest, RefusesAWrongElementInEachCorner) {
  for (const long row : {0L, problem_.m - 1}) {
    for (const long column : {0L, problem_.n - 1}) {
      const float right = C(row, column);
      C(row, column) = right + 1;
      EXPECT_NE(Verify(c_, problem_).fault, "") << row << "," << column;
      C(row, column) = right;
    }
  }
}

TEST_P(GemmOracleTest, RefusesAWrongRow) {
  for (const long row : {0L, problem_.m / 2, problem_.m - 1}) {
    const std::vector<float> right = c_;
    for (long column = 0; column < problem_.n; ++column) C(row, column) = 0;
    EXPECT_NE(Verify(c_, problem_).fault, "") << "row " << row;
    c_ = right;
  }
}

TEST_P(GemmOracleTest, RefusesAResultWithSmallErrors) {
  for (float& element : c_) element *= 1.0001F;
  const Verdict verdict = Verify(c_, problem_);
  EXPECT_EQ(verdict.fault.find("relative error "), 0U) << verdict.fault;
  EXPECT_GT(verdict.max_rel_err, 1e-5);
}

TEST_P(GemmOracleTest, RefusesAnyElementThatWasNotWritten) {
  for (const auto& [row, column] :
       {std::pair(0L, 0L), {17L, 23L}, {problem_.m - 1, problem_.n - 1}}) {
    const float right = std::exchange(C(row, column), std::numeric_limits<float>::quiet_NaN());
    const std::string place = std::to_string(row) + "," + std::to_string(column);
    EXPECT_EQ(Verify(c_, problem_).fault, "element [" + place + "] was not written");
    C(row, column) = right;
  }
  EXPECT_EQ(Verify(c_, problem_).fault, "");
}

// Its right elements are all 0, and so is their root mean square: the error is no number.
TEST_P(GemmOracleTest, RefusesAProductWhoseErrorIsUnknown) {
  GemmProblem problem = problem_;
  problem.k = 0;
  const Verdict verdict = Verify(RightC(problem), problem);
  EXPECT_TRUE(std::isnan(verdict.max_rel_err)) << verdict.max_rel_err;
  EXPECT_NE(verdict.fault, "");
}

TEST_P(GemmOracleTest, RefusesTheProductOfOtherMatrices) {
  GemmProblem other = problem_;
  other.seed_b = 3;
  EXPECT_NE(Verify(c_, other).fault, "");
  GemmProblem transposed = problem_;
  std::swap(transposed.seed_a, transposed.seed_b);
  EXPECT_NE(Verify(c_, transposed).fault, "");
}

}  // namespace
}  // namespace overlapbench
