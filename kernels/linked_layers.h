// LinkedLayers: equal linear layers whose outputs are summed over the ranks. A share of each
// layer's rows waits for the sum of the layer before.
//
//   row r of layer l's output = x_r · Wₗ                                 r < free_tokens
//                             = x_r · Wₗ - rate · row r of the sum of layer l - 1    otherwise
//
// With `width` w and t tokens, x is t×w, a weight w×w. Outputs lie one after the other, [layers ·
// t, w], or take turns in several buffers (workload/tensor.h). A work has the free or the tied rows
// of all layers; a part is one layer. An error in a sum reaches the outputs and sums of all later
// layers, and a poisoned sum poisons them. The rate is small enough for errors not to grow from
// layer to layer. Cost: 2·t·w² operations per layer.
#pragma once

#include <memory>

#include "workload/tensor.h"

namespace overlapbench {

struct LinkedLayers {
  // `outputs`: of all layers. `sums`: over the ranks, of the same shape; only tied rows read them.
  LinkedLayers(Device& device, long layers, long free_tokens, SharedTensor outputs,
               SharedTensor sums);

  long layers;
  long tokens;
  long free_tokens;
  long width;
  SharedTensor inputs;   // x
  SharedTensor weights;  // of all layers
  SharedTensor outputs;
  SharedTensor sums;
};

enum class LayerRows : std::uint8_t { kFree, kTied };

std::unique_ptr<Workload> MakeLinkedLayers(const Machine& machine,
                                           std::shared_ptr<LinkedLayers> layers, LayerRows rows,
                                           std::uint32_t seed);

}  // namespace overlapbench
