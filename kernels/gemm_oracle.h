// The oracle of every matrix product: checks random elements of C = A·B in double precision.
//
// A is m×k and B is k×n, both row-major and filled with RandomFraction(seed, row × columns +
// column), rounded to their element type. So any element of C can be computed without reading A or
// B. B may be stored transposed; it is then filled in the order in which it is stored.
#pragma once

#include <chrono>
#include <cstdint>

#include "workload/data.h"
#include "workload/rounding_error.h"
#include "workload/workload.h"

namespace overlapbench {

struct GemmProblem {
  long m = 0;  // rows of C that were computed
  long n = 0;  // columns of C that were computed
  long k = 0;
  long b_columns = 0;  // columns of B as stored
  long c_columns = 0;  // columns of C as stored
  bool b_transposed = false;
  Element element_ab = Element::kFloat32;
  Element element_c = Element::kFloat32;
  std::uint32_t seed_a = 1;
  std::uint32_t seed_b = 2;
  RoundingError error = {};  // of a right C
};

// Checks that every computed element was written, and compares a random sample of them, including
// the corners, with the oracle (workload/sample_check.h), on `threads` threads.
Verdict VerifyGemm(Device& device, Stream& stream, const void* c, const GemmProblem& problem,
                   std::chrono::milliseconds timeout, int threads);

}  // namespace overlapbench
