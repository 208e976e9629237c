// BlockHalf: one half of a transformer block on one of its tensor-parallel ranks.
//
//   normed     = layer norm(x)                            [tokens, hidden]
//   widened    = normed · W                               [tokens, wide]
//   activated  = attention(widened), or gelu(widened)     [tokens, inner]
//   partial    = activated · V                            [tokens, hidden]
//   sum        = Σ over the ranks of partial, by a collective between two of these steps
//   y          = x + mask · sum
//
// In the half with attention `wide` holds the queries, keys and values of this rank's heads, one
// after the other in each token's row, and is 3 · inner. In the other it is inner: this rank's
// share of the feed-forward layer. A block is one of each. The layout is that of M. Shoeybi et al.,
// Megatron-LM (2019); attention has no mask, and one head of keys for each head of queries.
//
// Every step can work on a range of rows; those of attention must be whole sequences. Each is
// checked against what its inputs hold (workload/tensor_step.h).
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "workload/tensor.h"

namespace overlapbench {

enum class HalfStep : std::uint8_t { kNorm, kWiden, kActivate, kNarrow, kMask, kResidual };
const char* ToString(HalfStep step);

struct BlockHalf {
  bool attends = false;
  long sequences = 1;
  std::uint32_t seed = 0;
  SharedTensor x;
  SharedTensor normed;
  SharedTensor widen;  // W
  SharedTensor widened;
  SharedTensor activated;
  SharedTensor narrow;   // V
  SharedTensor partial;  // read by a collective
  SharedTensor sum;      // written by it
  SharedTensor mask;
  SharedTensor y;
};

// The tensors of a half; `partial` and `sum` are in memory that collectives reach. `seed`: for
// weights and masks.
struct HalfShape {
  bool attends = false;
  long tokens = 0;
  long sequences = 1;
  long hidden = 0;
  long inner = 0;
};
BlockHalf MakeBlockHalf(Device& device, const HalfShape& shape, SharedTensor x,
                        SharedTensor partial, SharedTensor sum, std::uint32_t seed);

// The layer norm's gain. Products of what it leaves with random fractions, whose variance is 1/3,
// have a variance near 1.
float NormGain(long columns);

// The tensors of a step that no earlier step has, and whether it is a product, with a workspace.
struct StepTensors {
  std::vector<SharedTensor> all;
  bool multiplies = false;
};
StepTensors TensorsOf(const BlockHalf& half, HalfStep step);
std::unique_ptr<Workload> MakeHalfStep(const Machine& machine, const BlockHalf& half,
                                       HalfStep step);

}  // namespace overlapbench
