// LayerStack: the products of a training step through equal linear layers, on tensors.
//
//   forward    y = x·Wₗ                    for each layer
//   backward   dx = dy·Wₗ and dWₗ = Xₗᵀ·dy  for each layer, the last one first
//
// With `width` w and t tokens, x, y, dy and dx are t×w, a layer's weight and its gradient w×w. The
// gradients lie one after the other in the order in which they are made, so that those of
// neighbouring layers are one piece of memory. A part is one layer. Every layer has its own
// weights, but reads the same x and dy, so that their memory does not grow with the depth. Each Xₗᵀ
// begins some rows further in one matrix, so that the gradients differ. Cost: 2·t·w² operations per
// product.
#pragma once

#include <memory>
#include <vector>

#include "kernels/linear.h"
#include "workload/tensor.h"

namespace overlapbench {

struct LayerStack {
  LayerStack(Device& device, long layers, long width, long tokens, SharedTensor gradients);

  long layers;
  long width;
  SharedTensor inputs;           // x or dy
  SharedTensor outputs;          // y
  SharedTensor input_gradients;  // dx
  SharedTensor weights;          // of all layers
  SharedTensor transposed;       // what each Xₗᵀ is a part of
  SharedTensor gradients;        // of all layers, the last one's first: [layers · width, width]
  SharedTensor updated;          // weights

  // The products of each pass, as many for each layer.
  [[nodiscard]] std::vector<LinearProblem> Forward() const;
  [[nodiscard]] std::vector<LinearProblem> Backward() const;
};

// updated = weights - rate · sums, for all layers: what an optimizer does with the summed
// gradients. The weights stay as they are, so that a step can be repeated.
std::unique_ptr<Workload> MakeUpdate(const Machine& machine, const LayerStack& stack,
                                     const SharedTensor& sums, std::uint32_t seed);

}  // namespace overlapbench
