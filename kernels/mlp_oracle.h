// The oracle of the network that workload Mlp trains (kernels/mlp.h), and how a trained network is
// verified against it, in two ways.
//
// By stages, at every size: each tensor of the last step is compared, at random elements, with what
// double precision makes of the stage's inputs AS STORED on the device. A row of X and a column of
// W give one element of Z. Together the stages cover the whole step, and no error passes from one
// to the next. So the tolerance is narrow: at most three roundings to the element type lie between
// a stage's inputs and its output, plus the rounding errors of a long sum in float32
// (workload/rounding_error.h).
//
// End to end, where the oracle is fast enough: every element of the last step's output, gradients
// and updated parameters is compared with training in double precision from the same inputs. Here
// rounding errors pass from layer to layer and from step to step, so the tolerance is wider.
//
// Its derivation: N = steps·(4·layers + 2) roundings lie on the way, each of at most `unit` of the
// element and 0.4·unit on average. If they are independent they leave 0.4·unit·√N. Since some
// directions are stretched (0.2 to 0.4·unit·√N in simulations of 1 to 5 layers and 1 to 8 steps), a
// tensor's error in the Euclidean norm may be 1·unit·√N. A single element may be off by as much as
// the largest of so many with a standard deviation of 0.4·unit·√N.
#pragma once

#include <chrono>
#include <vector>

#include "kernels/mlp.h"
#include "workload/rounding_error.h"
#include "workload/workload.h"

namespace overlapbench {

using Doubles = std::vector<double>;

// The inputs and results of one forward and backward pass.
struct MlpInputs {
  Doubles parameters;
  Doubles input;
  Doubles output_gradient;
};
struct MlpPass {
  Doubles output;
  Doubles gradients;  // of the parameters
  Doubles input_gradient;
};

MlpInputs RandomMlpInputs(const MlpProblem& problem);
MlpPass RunMlp(const MlpProblem& problem, const MlpInputs& inputs);

// After problem.steps steps from the random inputs: the last pass, and the parameters that it
// updated.
struct TrainedMlp {
  MlpPass last;
  Doubles parameters;
};
TrainedMlp TrainMlp(const MlpProblem& problem);

// The tensors of the last step in the device's memory, each row-major, its layers back to back.
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
  // The same for a sum as long as the problem's: float32 rounds every partial sum.
  [[nodiscard]] double Unit(const MlpProblem& problem) const;
  // Of a stage.
  [[nodiscard]] RoundingError StageError(const MlpProblem& problem) const;
};

// Verifies by stages only if `oracle` is nullptr. Waits for `stream`.
Verdict VerifyMlp(Stream& stream, const MlpProblem& problem, const MlpNumbers& numbers,
                  const MlpTensors& tensors, const TrainedMlp* oracle,
                  std::chrono::milliseconds timeout);

}  // namespace overlapbench
