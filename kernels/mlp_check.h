// How a trained network is verified (workload Mlp), in two ways.
//
// By stages, at every size: each tensor of the last step is held against what its inputs, AS STORED
// on the device, make of it in double precision, at random elements: a row of X and a column of W
// give one element of Z. Together the stages cover the whole step, and no error of one is carried
// into the next, so that their tolerance is narrow: at most three roundings to the element type lie
// between a stage's inputs and its output, plus the rounding errors of a long sum in float32.
//
// End to end, where the oracle (mlp_oracle.h) is quick enough: every element of the last step's
// output, gradients and updated parameters against training in double precision from the same
// inputs. Rounding errors are carried from layer to layer and from step to step, so that the
// tolerance is wider: of N = steps·(4·layers + 2) roundings on the way, each of at most `unit`
// of the element and 0.4·unit on average, independent ones leave 0.4·unit·√N; a tensor's error in
// the Euclidean norm may be 1·unit·√N, since some directions are stretched (0.2 to 0.4·unit·√N in
// simulations of 1 to 5 layers and 1 to 8 steps). A single element may be off by six times as much
// of (root mean square + its size).
#pragma once

#include <chrono>

#include "device/device.h"
#include "kernels/mlp_oracle.h"
#include "workload/element.h"
#include "workload/workload.h"

namespace overlapbench {

// The tensors of the last step, in the device's memory, each row-major and behind the one before.
struct MlpTensors {
  const void* parameters = nullptr;  // that the step began with
  const void* updated = nullptr;     // parameters
  const void* gradients = nullptr;   // of the parameters
  const void* x = nullptr;           // Xₗ of each layer: the input first
  const void* z = nullptr;           // Zₗ of each layer: the output last
  const void* dz = nullptr;          // the input's gradient, and then dZₗ of each layer
};

struct MlpNumbers {
  Element element = Element::kFloat32;
  // The largest relative error of one rounding of a product's operands or of a stored element.
  double rounding = 0;
  // Of a sum of so many terms besides: float32 rounds every partial sum.
  [[nodiscard]] double Unit(const MlpProblem& problem) const;
};

// `oracle` may be nullptr: by stages only. Waits for `stream`.
Verdict VerifyMlp(Stream& stream, const MlpProblem& problem, const MlpNumbers& numbers,
                  const MlpTensors& tensors, const TrainedMlp* oracle,
                  std::chrono::milliseconds timeout);

}  // namespace overlapbench
