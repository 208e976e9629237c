// BlockGradients: the backward pass of half a transformer block (kernels/block_half.h).
//
//   d_sum        = mask · dy                              [tokens, hidden]
//   d_activated  = d_sum · Vᵀ                             [tokens, inner]
//   d_widened    = what activation makes of it            [tokens, wide]
//   d_partial    = d_widened · Wᵀ                         [tokens, hidden]
//   d_narrow     = activatedᵀ · d_sum                     [inner, hidden]
//   d_widen      = normedᵀ · d_widened                    [hidden, wide]
//   d_normed     = Σ over the ranks of d_partial, by a collective between two of these steps
//   dx           = dy + what layer norm makes of d_normed [tokens, hidden]
//
// Each d_… is the gradient of what the name says, except that d_partial is this rank's part of
// d_normed. dx is the dy of the half before. The gradients of the weights, d_narrow and d_widen,
// need no sum over the ranks and nothing of this half needs them.
//
// Attention's gradients need two numbers for each query and head (kernels/attention_gradients.h):
// the logarithm of its softmax's sum, which is computed again here, and the product of its result
// with the result's gradient. Each is a step of its own, so that it can be checked.
//
// A part of a step is some of the tokens, as in the forward pass. The gradients of weights are sums
// over all tokens and are not cut.
#pragma once

#include <span>

#include "kernels/block_half.h"

namespace overlapbench {

enum class GradientStep : std::uint8_t {
  kDropout,
  kNarrowInput,
  kLogSums,   // of attention alone
  kProducts,  // of attention alone
  kActivate,
  kWidenInput,
  kNarrowWeight,
  kWidenWeight,
  kNorm,
};
const char* ToString(GradientStep step);

struct BlockGradients {
  BlockHalf half;
  std::uint32_t seed = 0;
  SharedTensor dy;
  SharedTensor d_sum;
  SharedTensor d_activated;
  SharedTensor log_sums = {};  // [tokens, heads], float32; of attention alone
  SharedTensor products = {};  // the same
  SharedTensor d_widened;
  SharedTensor d_narrow;
  SharedTensor d_widen;
  SharedTensor d_partial;  // read by a collective
  SharedTensor d_normed;   // written by it
  SharedTensor dx;
};

// `d_partial` and `d_normed` are in memory that collectives reach. `seed`: for what no other step
// makes.
BlockGradients MakeBlockGradients(Device& device, const BlockHalf& half, SharedTensor dy,
                                  SharedTensor d_partial, SharedTensor d_normed,
                                  std::uint32_t seed);

// The steps before the sum, in their order.
std::span<const GradientStep> StepsBeforeSum(const BlockHalf& half);

SharedTensor ResultOf(const BlockGradients& gradients, GradientStep step);
StepTensors TensorsOf(const BlockGradients& gradients, GradientStep step);
std::unique_ptr<Workload> MakeGradientStep(const Machine& machine, const BlockGradients& gradients,
                                           GradientStep step);

}  // namespace overlapbench
