// BlockSchedule: the steps of tensor-parallel transformer blocks, half a block after the other, and
// their order.
//
// The plain form runs everything on one lane. In the pattern, micro-batches take turns, and the sum
// of one runs beside the computation of another (benchmarks/tp_block.cc draws it).
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "benchmarks/training.h"
#include "kernels/block_half.h"

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

// The halves of all `layers`. Each reads the result of the one before it, and gets a seed of its
// own from `seed`.
std::vector<BlockHalf> MakeHalves(const TensorWorks& works, const Settings& settings,
                                  const std::function<std::uint32_t()>& seed);
// "ffn 2": of half number `place`.
std::string NameOf(const BlockHalf& half, std::size_t place);
// A half's forward pass, of steps that `make` makes, without its mask.
Half ForwardOf(const TensorWorks& works, const BlockHalf& half, const std::string& name,
               const std::function<Work(HalfStep)>& make);

Schedule PlainForm(const std::vector<Half>& halves);
Schedule PatternForm(const std::vector<Half>& halves, long microbatches);

}  // namespace overlapbench
