// A matrix product as a tensor step: D = A·W, Aᵀ·W or A·Wᵀ, checked against what A and W hold.
//
// The three are a layer's passes: the result, the gradient of its weights, and the gradient of its
// input. A part is some rows of A and D; Aᵀ·W, whose rows are columns of A, is not cut.
#pragma once

#include "kernels/linear.h"
#include "workload/tensor_step.h"

namespace overlapbench {

TensorStep ProductStep(const Machine& machine, const SharedTensor& a, const SharedTensor& w,
                       const SharedTensor& d, Transposed transposed, std::uint32_t seed);

}  // namespace overlapbench
