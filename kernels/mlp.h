// The network that workload Mlp trains: its shape, its random data, and the kernels between its
// matrix products, on both backends.
//
// The network is linear, GELU, linear, GELU, …, linear. With X₀ the input of `batch` rows and `dim`
// columns, Wₗ of dim×dim and bₗ of dim elements:
//
//   Zₗ = Xₗ·Wₗ + bₗ,  Xₗ₊₁ = gelu(Zₗ),  output = the last Z
//
// The gradient of the output, which is that of the last Z, is given. From it:
//
//   dWₗ = Xₗᵀ·dZₗ,  dbₗ = Σ over rows of dZₗ,  dXₗ = dZₗ·Wₗᵀ,  dZₗ₋₁ = dXₗ ∘ gelu′(Zₗ₋₁)
//
// A step ends with W −= rate·dW and b −= rate·db, so the next step depends on it. GELU is its tanh
// form (kernels/gelu.h). All matrices are row-major. The parameters lie in one array: the weights
// of all layers, then the biases of all layers; their gradients likewise.
//
// Inputs are functions of an index (workload/data.h), scaled by powers of two, which keep them
// exact in every precision, so that all values stay near 1. The weights' scale, near 2 / √dim,
// keeps Z as large as X. The mean of X after a GELU is not 0, so part of dW has rank one and grows
// with dim·√batch; with a rate near 1 / (2·dim·√batch), that part changes W by about a tenth of its
// own largest singular value per step.
#pragma once

#include <cstddef>
#include <cstdint>

#include "device/device.h"
#include "workload/element.h"

namespace overlapbench {

struct MlpProblem {
  long dim = 0;
  long layers = 0;
  long batch = 0;
  long steps = 0;

  [[nodiscard]] long weight_count() const { return layers * dim * dim; }  // of all layers
  [[nodiscard]] long parameter_count() const { return weight_count() + layers * dim; }
  [[nodiscard]] long row_count() const { return batch * dim; }  // elements of X₀, of each Z, …
  // Where a layer's weights and biases begin among the parameters.
  [[nodiscard]] long weights_at(long layer) const { return layer * dim * dim; }
  [[nodiscard]] long biases_at(long layer) const { return weight_count() + layer * dim; }
  [[nodiscard]] float weight_scale() const;
  [[nodiscard]] float rate() const;
  // Three products per layer and step, of two operations per element and term.
  [[nodiscard]] double products() const { return 3 * static_cast<double>(layers * steps); }
  [[nodiscard]] double flops() const;
  bool operator==(const MlpProblem&) const = default;
};

inline constexpr std::uint32_t kMlpWeightSeed = 11;
inline constexpr std::uint32_t kMlpBiasSeed = 12;
inline constexpr std::uint32_t kMlpInputSeed = 13;
inline constexpr std::uint32_t kMlpGradientSeed = 14;

// ---- The kernels, one for each operation between products. Elements are float32, float16 or
// bfloat16; arithmetic is in float32. `columns` is a multiple of 8, so that a thread can move 16
// bytes at a time. All of them are bound by memory.

struct MatrixSize {
  long rows = 0;
  long columns = 0;
};

// z += bias in every row, and x = gelu(z) unless x is nullptr.
void EnqueueBiasGelu(Stream& stream, Element element, const MatrixSize& size, void* z,
                     const void* bias, void* x);

// gradient = gradient ∘ gelu′(z), unless z is nullptr; bias_gradient = its sum over the rows.
// `scratch` has BiasScratchBytes(size) bytes.
void EnqueueGeluBackward(Stream& stream, Element element, const MatrixSize& size, void* gradient,
                         const void* z, void* bias_gradient, void* scratch);
std::size_t BiasScratchBytes(const MatrixSize& size);

// updated = parameters − rate·gradients.
void EnqueueUpdate(Stream& stream, Element element, long count, void* updated,
                   const void* parameters, const void* gradients, float rate);

// The same parameters as RandomMlpInputs (kernels/mlp_oracle.h).
void EnqueueMlpParameters(Stream& stream, Element element, const MlpProblem& problem,
                          void* parameters);

}  // namespace overlapbench
