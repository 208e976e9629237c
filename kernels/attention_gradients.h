// The backward pass of attention (kernels/attention.h): the gradients of queries, keys and values
// from that of the results, dO.
//
// With scores s = q·k/√d, the logarithm of the sum of a query's exponentials L, and the product
// D = o·dO of its result and that result's gradient, for every query i and key j of a head:
//
//   p = exp(s − L)                 probability
//   ds = p · (dO·v − D) / √d       gradient of q·k
//   dq_i = Σj ds·k_j    dk_j = Σi ds·q_i    dv_j = Σi p·dO_i
//
// (T. Dao, FlashAttention-2, 2023, algorithm 2.) L comes first, from EnqueueLogSums; D is a sum
// over each row (kernels/token_steps.h). No two threads add to one element, so results are the same
// to the bit each time.
#pragma once

#include <string>

#include "kernels/attention.h"

namespace overlapbench {

// `attention.results` is not used; its other matrices are those of the forward pass.
struct AttentionGradients {
  AttentionProblem attention;
  const void* result_gradients = nullptr;  // dO, laid out by attention.output
  const float* log_sums = nullptr;         // L and D: [token][head]
  const float* products = nullptr;
  void* query_gradients = nullptr;  // laid out by attention.inputs
  void* key_gradients = nullptr;
  void* value_gradients = nullptr;
};

// Shared memory of a block.
inline constexpr int kAttentionGradientsSharedBytes = 129 * 1024;
// "" if the device can run them; otherwise why not.
std::string AttentionGradientsUnavailable(const DeviceInfo& device);

// Call once before the first launch: it loads the kernels. Does nothing on the host backend.
void PrepareAttentionGradients(const Device& device);
void EnqueueLogSums(Stream& stream, const AttentionProblem& attention, float* log_sums);
void EnqueueAttentionGradients(Stream& stream, const AttentionGradients& problem);

}  // namespace overlapbench
