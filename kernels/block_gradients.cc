#include "kernels/block_gradients.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "kernels/attended.h"
#include "kernels/attention_gradients.h"
#include "kernels/gelu.h"
#include "kernels/gelu_oracle.h"
#include "kernels/linear.h"
#include "kernels/token_steps.h"

namespace overlapbench {
namespace {

std::uint32_t SeedOf(const BlockGradients& gradients, GradientStep step) {
  constexpr std::uint32_t kStepsApart = 4 * TensorStep::kSeedsApart;
  return gradients.seed + static_cast<std::uint32_t>(step) * kStepsApart;
}

TensorStep StepOf(const BlockGradients& gradients, GradientStep step,
                  std::vector<SharedTensor> inputs) {
  return StepOn(std::move(inputs), ResultOf(gradients, step), SeedOf(gradients, step));
}

// ---- Dropout

TensorStep Dropout(const BlockGradients& gradients) {
  const SharedTensor& mask = gradients.half.mask;
  const SharedTensor& dy = gradients.dy;
  TensorStep step = StepOf(gradients, GradientStep::kDropout, {mask, dy});
  step.enqueue = [mask, dy, y = step.output](Stream& stream, long first, long rows) {
    const TensorShape& shape = y->shape();
    EnqueueResidual(stream, shape.element, rows * shape.columns, nullptr, mask->Row(first),
                    dy->Row(first), y->Row(first));
  };
  step.expected = [mask, dy](HeldRows& held, long row, long column) {
    return static_cast<double>(held.Row(mask, row)[column]) * held.Row(dy, row)[column];
  };
  return step;
}

// ---- GELU

TensorStep Gelu(const BlockGradients& gradients) {
  const SharedTensor& x = gradients.half.widened;
  const SharedTensor& dy = gradients.d_activated;
  TensorStep step = StepOf(gradients, GradientStep::kActivate, {x, dy});
  step.enqueue = [x, dy, y = step.output](Stream& stream, long first, long rows) {
    LaunchGelu(stream, {.direction = GeluDirection::kBackward,
                        .element = y->shape().element,
                        .tensors = {.input = x->Row(first),
                                    .grad = dy->Row(first),
                                    .output = y->Row(first),
                                    .count = rows * y->shape().columns}});
  };
  step.error = [element = step.output->shape().element] {
    return RoundingError{GeluTolerance(element)};
  };
  step.expected = [x, dy](HeldRows& held, long row, long column) {
    return held.Row(dy, row)[column] * GeluDerivative(GeluForm::kTanh, held.Row(x, row)[column]);
  };
  return step;
}

// ---- Attention

float* FloatsOf(const SharedTensor& tensor, long first) {
  return reinterpret_cast<float*>(tensor->Row(first));
}

double ScoreOf(HeldRows& held, const Attended& attended, long query, long key, long head) {
  const long column = head * kAttentionDim;
  return Dot(held.Row(attended.widened, query), column, held.Row(attended.widened, key),
             attended.inner + column) /
         std::sqrt(static_cast<double>(kAttentionDim));
}

TensorStep LogSums(const BlockGradients& gradients) {
  const Attended attended(gradients.half);
  TensorStep step = StepOf(gradients, GradientStep::kLogSums, {attended.widened});
  step.cost.flops = 2.0 * static_cast<double>(gradients.half.activated->count()) *
                    static_cast<double>(attended.sequence);
  step.enqueue = [attended, sums = step.output](Stream& stream, long first, long rows) {
    EnqueueLogSums(stream, attended.ProblemOf(first, rows), FloatsOf(sums, first));
  };
  step.error = [sequence = attended.sequence] {
    return AttentionError(Element::kFloat32, sequence);
  };
  step.expected = [attended](HeldRows& held, long row, long head) {
    const long first = attended.FirstOf(row);
    double sum = 0;  // scores are small enough for exp() in double precision
    for (long key = first; key < first + attended.sequence; ++key)
      sum += std::exp(ScoreOf(held, attended, row, key, head));
    return std::log(sum);
  };
  return step;
}

TensorStep ResultProducts(const BlockGradients& gradients) {
  const SharedTensor& results = gradients.half.activated;
  const SharedTensor& of_results = gradients.d_activated;
  TensorStep step = StepOf(gradients, GradientStep::kProducts, {results, of_results});
  step.enqueue = [results, of_results, sums = step.output](Stream& stream, long first, long rows) {
    EnqueueRowProducts(stream, results->shape().element, rows * sums->shape().columns,
                       kAttentionDim, results->Row(first), of_results->Row(first),
                       FloatsOf(sums, first));
  };
  step.expected = [results, of_results](HeldRows& held, long row, long head) {
    return Dot(held.Row(results, row), head * kAttentionDim, held.Row(of_results, row),
               head * kAttentionDim);
  };
  return step;
}

// One element of the gradients of queries, keys or values: a sum over the sequence's other side.
struct ExpectedGradient {
  Attended attended;
  SharedTensor of_results;
  SharedTensor log_sums;
  SharedTensor products;

  ExpectedValue operator()(HeldRows& held, long row, long column) const {
    const long first = attended.FirstOf(row);
    const long third = column / attended.inner;
    const long head = column % attended.inner / kAttentionDim;
    double sum = 0;
    double squares = 0;
    for (long other = first; other < first + attended.sequence; ++other) {
      const double term =
          third == 0   ? OfScore(held, row, other, head) *
                             held.Row(attended.widened, other)[column + attended.inner]
          : third == 1 ? OfScore(held, other, row, head) *
                             held.Row(attended.widened, other)[column - attended.inner]
                       : Probability(held, other, row, head) *
                             held.Row(of_results, other)[column - 2 * attended.inner];
      sum += term;
      squares += term * term;
    }
    return {sum, std::sqrt(squares)};
  }

 private:
  [[nodiscard]] double Probability(HeldRows& held, long query, long key, long head) const {
    return std::exp(ScoreOf(held, attended, query, key, head) - held.Row(log_sums, query)[head]);
  }
  [[nodiscard]] double OfScore(HeldRows& held, long query, long key, long head) const {
    const long column = head * kAttentionDim;
    const double of_probability = Dot(held.Row(of_results, query), column,
                                      held.Row(attended.widened, key), 2 * attended.inner + column);
    return Probability(held, query, key, head) *
           (of_probability - held.Row(products, query)[head]) /
           std::sqrt(static_cast<double>(kAttentionDim));
  }
};

TensorStep Attend(const BlockGradients& gradients) {
  const Attended attended(gradients.half);
  const ExpectedGradient expected{attended, gradients.d_activated, gradients.log_sums,
                                  gradients.products};
  TensorStep step =
      StepOf(gradients, GradientStep::kActivate,
             {attended.widened, expected.of_results, expected.log_sums, expected.products});
  constexpr double kProducts = 10;  // as FlashAttention's papers count: five, each of them 2 m n k
  step.cost.flops = kProducts * static_cast<double>(gradients.half.activated->count()) *
                    static_cast<double>(attended.sequence);
  step.enqueue = [attended, expected, result = step.output](Stream& stream, long first, long rows) {
    EnqueueAttentionGradients(stream, {.attention = attended.ProblemOf(first, rows),
                                       .result_gradients = expected.of_results->Row(first),
                                       .log_sums = FloatsOf(expected.log_sums, first),
                                       .products = FloatsOf(expected.products, first),
                                       .query_gradients = attended.Third(result, first, 0),
                                       .key_gradients = attended.Third(result, first, 1),
                                       .value_gradients = attended.Third(result, first, 2)});
  };
  step.expected = expected;
  step.error = [element = step.output->shape().element, sequence = attended.sequence] {
    return AttentionError(element, sequence);
  };
  return step;
}

// ---- Layer norm

double ExpectedNormGradient(const std::vector<float>& x, const std::vector<float>& of_result,
                            long column) {
  const auto columns = static_cast<double>(x.size());
  double sum = 0;
  double squares = 0;
  double gradients = 0;
  double products = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    sum += x[i];
    squares += static_cast<double>(x[i]) * x[i];
    gradients += of_result[i];
    products += static_cast<double>(of_result[i]) * x[i];
  }
  const double mean = sum / columns;
  const double inverse = 1 / std::sqrt(squares / columns - mean * mean + kNormEpsilon);
  const double z = (x[column] - mean) * inverse;
  const double along = (products / columns - mean * gradients / columns) * inverse;
  return NormGain(std::ssize(x)) * inverse * (of_result[column] - gradients / columns - z * along);
}

TensorStep Norm(const BlockGradients& gradients) {
  const SharedTensor& x = gradients.half.x;
  const SharedTensor& of_result = gradients.d_normed;
  const SharedTensor& dy = gradients.dy;
  TensorStep step = StepOf(gradients, GradientStep::kNorm, {x, of_result, dy});
  step.enqueue = [x, of_result, dy, dx = step.output](Stream& stream, long first, long rows) {
    const TensorShape& shape = x->shape();
    EnqueueLayerNormGradient(stream, {.element = shape.element,
                                      .rows = rows,
                                      .columns = shape.columns,
                                      .gain = NormGain(shape.columns),
                                      .x = x->Row(first),
                                      .of_result = of_result->Row(first),
                                      .added = dy->Row(first),
                                      .result = dx->Row(first)});
  };
  step.expected = [x, of_result, dy](HeldRows& held, long row, long column) {
    return held.Row(dy, row)[column] +
           ExpectedNormGradient(held.Row(x, row), held.Row(of_result, row), column);
  };
  return step;
}

}  // namespace

const char* ToString(GradientStep step) {
  static constexpr std::array kNames = {"dropout gradient",
                                        "narrow gradient",
                                        "log sums",
                                        "products",
                                        "activation gradient",
                                        "widen gradient",
                                        "narrow weight gradient",
                                        "widen weight gradient",
                                        "norm gradient"};
  return kNames[static_cast<std::size_t>(step)];
}

BlockGradients MakeBlockGradients(Device& device, const BlockHalf& half, SharedTensor dy,
                                  SharedTensor d_partial, SharedTensor d_normed,
                                  std::uint32_t seed) {
  const auto like = [&](const SharedTensor& tensor) { return MakeTensor(device, tensor->shape()); };
  BlockGradients made{.half = half,
                      .seed = seed,
                      .dy = std::move(dy),
                      .d_sum = like(half.y),
                      .d_activated = like(half.activated),
                      .d_widened = like(half.widened),
                      .d_narrow = like(half.narrow),
                      .d_widen = like(half.widen),
                      .d_partial = std::move(d_partial),
                      .d_normed = std::move(d_normed),
                      .dx = like(half.y)};
  if (half.attends) {
    const TensorShape of_heads{.rows = half.activated->shape().rows,
                               .columns = half.activated->shape().columns / kAttentionDim};
    made.log_sums = MakeTensor(device, of_heads);
    made.products = MakeTensor(device, of_heads);
  }
  return made;
}

std::span<const GradientStep> StepsBeforeSum(const BlockHalf& half) {
  using enum GradientStep;
  static constexpr std::array kOfAttention = {kDropout,  kNarrowInput, kLogSums,
                                              kProducts, kActivate,    kWidenInput};
  static constexpr std::array kOfFeedForward = {kDropout, kNarrowInput, kActivate, kWidenInput};
  if (half.attends) return kOfAttention;
  return kOfFeedForward;
}

SharedTensor ResultOf(const BlockGradients& gradients, GradientStep step) {
  const std::array results = {gradients.d_sum,    gradients.d_activated, gradients.log_sums,
                              gradients.products, gradients.d_widened,   gradients.d_partial,
                              gradients.d_narrow, gradients.d_widen,     gradients.dx};
  return results[static_cast<std::size_t>(step)];
}

StepTensors TensorsOf(const BlockGradients& gradients, GradientStep step) {
  using enum GradientStep;
  static constexpr std::array kProductSteps = {kNarrowInput, kWidenInput, kNarrowWeight,
                                               kWidenWeight};
  const bool multiplies = std::ranges::find(kProductSteps, step) != kProductSteps.end();
  return {{ResultOf(gradients, step), gradients.dy}, multiplies};
}

std::unique_ptr<Workload> MakeGradientStep(const Machine& machine, const BlockGradients& gradients,
                                           GradientStep step) {
  const BlockHalf& half = gradients.half;
  const auto product = [&](const SharedTensor& a, const SharedTensor& w, Transposed transposed) {
    return ProductStep(machine, a, w, ResultOf(gradients, step), transposed,
                       SeedOf(gradients, step));
  };
  const auto make = [&]() -> TensorStep {
    switch (step) {
      case GradientStep::kDropout:
        return Dropout(gradients);
      case GradientStep::kNarrowInput:
        return product(gradients.d_sum, half.narrow, Transposed::kW);
      case GradientStep::kLogSums:
        return LogSums(gradients);
      case GradientStep::kProducts:
        return ResultProducts(gradients);
      case GradientStep::kActivate:
        return half.attends ? Attend(gradients) : Gelu(gradients);
      case GradientStep::kWidenInput:
        return product(gradients.d_widened, half.widen, Transposed::kW);
      case GradientStep::kNarrowWeight:
        return product(half.activated, gradients.d_sum, Transposed::kA);
      case GradientStep::kWidenWeight:
        return product(half.normed, gradients.d_widened, Transposed::kA);
      case GradientStep::kNorm:
        return Norm(gradients);
    }
    throw Error("the gradients of half a block have no such step");
  };
  if (half.attends) PrepareAttentionGradients(machine.device);
  return MakeTensorStep(machine, make());
}

}  // namespace overlapbench
