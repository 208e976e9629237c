// MasterWeights: the update of weights that are kept in float32 beside the ones that layers compute
// with, as in mixed-precision training (P. Micikevicius et al., Mixed Precision Training, 2018).
//
//   update    updated = master - rate · gradient     float32; the gradient has the layers' type
//   convert   weight  = round(updated)               to the layers' type
//
// Small changes that the layers' type would round away add up in the master. Both are bound by
// memory: 10 and 6 bytes per weight with bfloat16 layers. Tensors have the rows of all layers, one
// after the other, so a part of as many as there are layers is one layer. The master stays as it
// is, so that a step can be repeated. On the host backend, where layers have float32, converting is
// copying.
#pragma once

#include <memory>

#include "workload/tensor.h"

namespace overlapbench {

struct MasterWeights {
  // Both tensors have the same shape. Rows of a layer times columns must be a multiple of 4.
  MasterWeights(Device& device, SharedTensor gradients, SharedTensor weights);

  SharedTensor gradients;
  SharedTensor weights;  // the result
  SharedTensor master;
  SharedTensor updated;
};

// `seed`: for the master, and for what no other work makes.
std::unique_ptr<Workload> MakeMasterUpdate(const Machine& machine, const MasterWeights& weights,
                                           std::uint32_t seed);
std::unique_ptr<Workload> MakeConversion(const Machine& machine, const MasterWeights& weights,
                                         std::uint32_t seed);

}  // namespace overlapbench
