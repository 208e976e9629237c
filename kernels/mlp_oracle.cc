#include "kernels/mlp_oracle.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "workload/data.h"

namespace overlapbench {
namespace {

const double kRootTwoOverPi = std::sqrt(2 / std::numbers::pi);
constexpr double kCubic = 0.044715;

float NearestPowerOfTwo(double value) {
  return static_cast<float>(std::exp2(std::round(std::log2(value))));
}

Doubles Fractions(std::uint32_t seed, long count, double scale) {
  Doubles values(count);
  for (long i = 0; i < count; ++i) values[i] = scale * RandomFraction(seed, i);
  return values;
}

// A (m×k) times B (k×n). The innermost loop runs along rows of B and C, so that it is vectorized.
Doubles Times(const double* a, const double* b, long m, long k, long n) {
  Doubles c(m * n);
  for (long row = 0; row < m; ++row) {
    double* c_row = &c[row * n];
    for (long i = 0; i < k; ++i) {
      const double factor = a[row * k + i];
      const double* b_row = b + i * n;
      for (long column = 0; column < n; ++column) c_row[column] += factor * b_row[column];
    }
  }
  return c;
}

Doubles Transposed(const double* matrix, long rows, long columns) {
  Doubles result(rows * columns);
  for (long row = 0; row < rows; ++row) {
    for (long column = 0; column < columns; ++column)
      result[column * rows + row] = matrix[row * columns + column];
  }
  return result;
}

// Where a layer's weights and biases lie in the parameters.
struct Layer {
  long weights;
  long biases;
};
Layer LayerAt(const MlpProblem& problem, long layer) {
  return {layer * problem.dim * problem.dim, problem.weight_count() + layer * problem.dim};
}

}  // namespace

float MlpProblem::weight_scale() const {
  return NearestPowerOfTwo(2 / std::sqrt(static_cast<double>(dim)));
}

float MlpProblem::rate() const {
  const auto width = static_cast<double>(dim);
  return NearestPowerOfTwo(1 / (2 * width * std::sqrt(static_cast<double>(batch))));
}

double MlpProblem::flops() const {
  const double product = 2.0 * static_cast<double>(row_count()) * static_cast<double>(dim);
  return 3 * product * static_cast<double>(layers * steps);
}

double MlpGelu(double z) {
  return z / 2 * (1 + std::tanh(kRootTwoOverPi * (z + kCubic * z * z * z)));
}

double MlpGeluDerivative(double z) {
  const double tanh = std::tanh(kRootTwoOverPi * (z + kCubic * z * z * z));
  const double inner = kRootTwoOverPi * (1 + 3 * kCubic * z * z);
  return (1 + tanh) / 2 + z / 2 * (1 - tanh * tanh) * inner;
}

MlpInputs RandomMlpInputs(const MlpProblem& problem) {
  MlpInputs inputs;
  inputs.parameters = Fractions(kMlpWeightSeed, problem.weight_count(), problem.weight_scale());
  const Doubles biases = Fractions(kMlpBiasSeed, problem.layers * problem.dim, 1);
  inputs.parameters.insert(inputs.parameters.end(), biases.begin(), biases.end());
  inputs.input = Fractions(kMlpInputSeed, problem.row_count(), 1);
  inputs.output_gradient = Fractions(kMlpGradientSeed, problem.row_count(), 1);
  return inputs;
}

MlpPass RunMlp(const MlpProblem& problem, const MlpInputs& inputs) {
  const auto& [dim, layers, batch, steps] = problem;
  std::vector<Doubles> x = {inputs.input};  // of each layer
  std::vector<Doubles> z;
  for (long l = 0; l < layers; ++l) {
    const Layer at = LayerAt(problem, l);
    z.push_back(Times(x[l].data(), &inputs.parameters[at.weights], batch, dim, dim));
    for (long i = 0; i < problem.row_count(); ++i)
      z[l][i] += inputs.parameters[at.biases + i % dim];
    x.push_back(z[l]);
    for (double& value : x.back()) value = MlpGelu(value);
  }
  MlpPass pass{z.back(), Doubles(problem.parameter_count()), {}};
  Doubles dz = inputs.output_gradient;
  for (long l = layers - 1; l >= 0; --l) {
    const Layer at = LayerAt(problem, l);
    const Doubles dw =
        Times(Transposed(x[l].data(), batch, dim).data(), dz.data(), dim, batch, dim);
    std::copy(dw.begin(), dw.end(), pass.gradients.begin() + at.weights);
    for (long i = 0; i < problem.row_count(); ++i) pass.gradients[at.biases + i % dim] += dz[i];
    const Doubles w_transposed = Transposed(&inputs.parameters[at.weights], dim, dim);
    dz = Times(dz.data(), w_transposed.data(), batch, dim, dim);
    if (l == 0) break;
    for (long i = 0; i < problem.row_count(); ++i) dz[i] *= MlpGeluDerivative(z[l - 1][i]);
  }
  pass.input_gradient = dz;
  return pass;
}

TrainedMlp TrainMlp(const MlpProblem& problem) {
  MlpInputs inputs = RandomMlpInputs(problem);
  MlpPass pass;
  for (long step = 0; step < problem.steps; ++step) {
    pass = RunMlp(problem, inputs);
    for (long i = 0; i < problem.parameter_count(); ++i)
      inputs.parameters[i] -= problem.rate() * pass.gradients[i];
  }
  return {pass, inputs.parameters};
}

}  // namespace overlapbench
