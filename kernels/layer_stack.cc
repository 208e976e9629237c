#include "kernels/layer_stack.h"

#include <tuple>
#include <utility>

#include "kernels/mlp.h"
#include "workload/tensor_step.h"

namespace overlapbench {
namespace {

constexpr long kRowsApart = 16;  // from one layer's Xᵀ to the next's

}  // namespace

LayerStack::LayerStack(Device& device, long layers, long width, long tokens, SharedTensor gradients)
    : layers(layers), width(width), gradients(std::move(gradients)) {
  const auto make = [&](long rows, long columns) {
    return MakeTensor(device, {.element = LayerElement(device), .rows = rows, .columns = columns});
  };
  inputs = make(tokens, width);
  outputs = make(tokens, width);
  input_gradients = make(tokens, width);
  weights = make(layers * width, width);
  transposed = make(width + (layers - 1) * kRowsApart, tokens);
  updated = make(layers * width, width);
}

// Each layer overwrites the result of the one before, so all but the last have an alias of it.
std::vector<LinearProblem> LayerStack::Forward() const {
  std::vector<LinearProblem> products;
  for (long layer = 0; layer < layers; ++layer)
    products.push_back({.a = inputs,
                        .w = weights,
                        .d = layer + 1 < layers ? outputs->Alias() : outputs,
                        .w_row = layer * width});
  return products;
}

std::vector<LinearProblem> LayerStack::Backward() const {
  constexpr std::uint32_t kAfterWeights = 2U << 24;  // the inputs, also a W here, must differ
  std::vector<LinearProblem> products;
  for (long step = 0; step < layers; ++step) {
    products.push_back({.a = inputs,
                        .w = weights,
                        .d = step + 1 < layers ? input_gradients->Alias() : input_gradients,
                        .w_row = (layers - 1 - step) * width});
    products.push_back({.a = transposed,
                        .w = inputs,
                        .d = gradients,
                        .a_row = step * kRowsApart,
                        .d_row = step * width,
                        .rows = width,
                        .seed = kAfterWeights});
  }
  return products;
}

std::unique_ptr<Workload> MakeUpdate(const Machine& machine, const LayerStack& stack,
                                     const SharedTensor& sums, std::uint32_t seed) {
  constexpr float kRate = 1.0F / 64;
  const auto& [weights, updated] = std::tie(stack.weights, stack.updated);
  TensorStep step = StepOn({weights, sums}, updated, seed);
  step.enqueue = [weights, sums, updated](Stream& stream, long first, long rows) {
    const TensorShape& shape = sums->shape();
    EnqueueUpdate(stream, shape.element, rows * shape.columns, updated->Row(first),
                  weights->Row(first), sums->Row(first), kRate);
  };
  step.oracle = [weights, sums](int rank, long row, long column) {
    return weights->Expected(rank, row, column) - kRate * sums->Expected(rank, row, column);
  };
  step.error = [sums] {
    return sums->error().AsTerm().And(ErrorOfSum(2)).Stored(sums->shape().element);
  };
  return MakeTensorStep(machine, step);
}

}  // namespace overlapbench
