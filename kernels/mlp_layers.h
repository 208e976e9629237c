// What a network does between its matrix products, one kernel each: bias and GELU, their gradients,
// and the update of the parameters. On both backends.
//
// Elements are float32, float16 or bfloat16; arithmetic is in float32. Matrices are rows×columns,
// row-major, and `columns` is a multiple of 8, so that a thread moves 16 bytes at a time. All of
// these are bound by memory. Formulas: kernels/mlp_oracle.h.
#pragma once

#include "device/device.h"
#include "kernels/mlp_oracle.h"
#include "workload/element.h"

namespace overlapbench {

struct MatrixSize {
  long rows = 0;
  long columns = 0;
};

// z += bias in every row, and x = gelu(z) unless x is nullptr.
void EnqueueBiasGelu(Stream& stream, Element element, const MatrixSize& size, void* z,
                     const void* bias, void* x);

// gradient = gradient ∘ gelu′(z), unless z is nullptr; bias_gradient = its sum over the rows.
// `scratch` holds BiasScratchBytes(size) bytes.
void EnqueueGeluBackward(Stream& stream, Element element, const MatrixSize& size, void* gradient,
                         const void* z, void* bias_gradient, void* scratch);
std::size_t BiasScratchBytes(const MatrixSize& size);

// updated = parameters − rate·gradients.
void EnqueueUpdate(Stream& stream, Element element, long count, void* updated,
                   const void* parameters, const void* gradients, float rate);

// The parameters that RandomMlpInputs gives.
void EnqueueMlpParameters(Stream& stream, Element element, const MlpProblem& problem,
                          void* parameters);

}  // namespace overlapbench
