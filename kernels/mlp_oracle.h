// The oracle of the network that workload Mlp trains, in double precision.
//
// The network is linear, GELU, linear, GELU, …, linear: with X₀ the input of `batch` rows and dim
// columns, Wₗ of dim×dim, bₗ of dim elements,
//
//   Zₗ = Xₗ·Wₗ + bₗ,  Xₗ₊₁ = gelu(Zₗ),  output = the last Z
//
// and, from a given gradient of the output, which is that of the last Z,
//
//   dWₗ = Xₗᵀ·dZₗ,  dbₗ = Σ over rows of dZₗ,  dXₗ = dZₗ·Wₗᵀ,  dZₗ₋₁ = dXₗ ∘ gelu′(Zₗ₋₁)
//
// A step ends with W −= rate·dW and b −= rate·db, so that the next one depends on it. Everything is
// row-major. The parameters lie in one array: the layers' weights, then the layers' biases; their
// gradients likewise. GELU is its tanh form (Hendrycks and Gimpel, "Gaussian Error Linear Units",
// 2016): gelu(z) = z/2·(1 + tanh(√(2/π)·(z + 0.044715·z³))).
//
// Inputs are functions of an index (workload/data.h), scaled so that all values stay near 1: the
// weights by a power of two near 2 / √dim, which keeps Z of the size of X, and `rate` by one near
// 1 / (2·dim·√batch). The mean of X after a GELU is not 0, so that a part of dW has rank one, and
// of it grows with dim·√batch; with this rate it changes W by about a tenth of its own largest
// singular value in a step. Powers of two keep the inputs exact in every precision.
#pragma once

#include <cstdint>
#include <vector>

namespace overlapbench {

struct MlpProblem {
  long dim = 0;
  long layers = 0;
  long batch = 0;
  long steps = 0;

  [[nodiscard]] long weight_count() const { return layers * dim * dim; }  // of all layers
  [[nodiscard]] long parameter_count() const { return weight_count() + layers * dim; }
  [[nodiscard]] long row_count() const { return batch * dim; }  // elements of X₀, of each Z, …
  [[nodiscard]] float weight_scale() const;
  [[nodiscard]] float rate() const;
  // 2 operations an element and product: three products a layer and step.
  [[nodiscard]] double flops() const;
  bool operator==(const MlpProblem&) const = default;
};

inline constexpr std::uint32_t kMlpWeightSeed = 11;
inline constexpr std::uint32_t kMlpBiasSeed = 12;
inline constexpr std::uint32_t kMlpInputSeed = 13;
inline constexpr std::uint32_t kMlpGradientSeed = 14;

using Doubles = std::vector<double>;

double MlpGelu(double z);
double MlpGeluDerivative(double z);

// What one forward and backward pass takes and gives.
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

// After problem.steps steps from the random inputs: the last pass, and the parameters updated by
// it.
struct TrainedMlp {
  MlpPass last;
  Doubles parameters;
};
TrainedMlp TrainMlp(const MlpProblem& problem);

}  // namespace overlapbench
