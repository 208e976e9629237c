// MoeStep: the works of a layer of a mixture of experts, whose order a family chooses.
#pragma once

#include <string>

#include "benchmarks/training.h"
#include "kernels/experts.h"

namespace overlapbench {

// The axes tokens, experts, topk and skew.
RoutingShape MoeRouting(const Machine& machine, const Settings& settings, long microbatches);

// Why a step of these axes cannot run; "" if it can.
std::string ExcludedMoe(const Machine& machine, const Settings& settings);

// Of the axes layers, hidden and products too, in `microbatches` micro-batches; `suffix`
// distinguishes those of two steps.
struct MoeStep {
  MoeStep(const TensorWorks& works, const Settings& settings, long microbatches,
          const std::string& suffix);

  long layers;
  long microbatches;
  Work dense;
  Work permute;
  Work dispatch;
  Work experts;
  Work combine;
  Work sum;
};

}  // namespace overlapbench
