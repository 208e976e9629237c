// BlockSum: the sum of a rank's own partial results and those that have come from other ranks, in
// one pass over all of them.
//
// Sums are in float32 and rounded once. The rows of what has come are blocks, one for each sender,
// as large as the result. A part is some rows of the result. Bound by memory. Columns come in
// whole packs (kernels/pack.h).
#pragma once

#include <cstdint>
#include <memory>

#include "workload/tensor.h"

namespace overlapbench {

struct BlockSum {
  SharedTensor own = {};  // its first rows, as many as the result has
  SharedTensor arrivals = {};
  SharedTensor sums = {};
  std::uint32_t seed = 0;  // for inputs that no other work makes
};

std::unique_ptr<Workload> MakeBlockSum(const Machine& machine, const BlockSum& sum);

}  // namespace overlapbench
