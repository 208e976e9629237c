// BlockSchedule: the order of the steps of tensor-parallel transformer blocks, half a block after
// the other.
//
// The plain form runs everything on one lane. In the pattern, micro-batches take turns, and the sum
// of one runs beside the computation of another (benchmarks/tp_block.cc draws it).
#pragma once

#include <vector>

#include "fixtures/schedule.h"

namespace overlapbench {

// Half a block, forward or backward.
struct Half {
  std::vector<Work> weight_copies;  // to the device
  std::vector<Work> before_sum;     // of a micro-batch, one after the other
  Work sum;
  std::vector<Work> beside_sum;        // of a micro-batch; they do not need the sum
  std::vector<Work> weight_gradients;  // of all micro-batches; nor do they need it
  Work after_sum;
};

Schedule PlainForm(const std::vector<Half>& halves);
Schedule PatternForm(const std::vector<Half>& halves, long microbatches);

}  // namespace overlapbench
