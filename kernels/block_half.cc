#include "kernels/block_half.h"

#include <array>
#include <cmath>
#include <tuple>
#include <utility>

#include "kernels/attended.h"
#include "kernels/gelu.h"
#include "kernels/gelu_oracle.h"
#include "kernels/linear.h"
#include "kernels/token_steps.h"

namespace overlapbench {
namespace {

constexpr int kSteps = 6;

std::uint32_t SeedOf(const BlockHalf& half, HalfStep step) {
  constexpr std::uint32_t kStepsApart = 4 * TensorStep::kSeedsApart;
  return half.seed + static_cast<std::uint32_t>(step) * kStepsApart;
}

TensorStep StepOf(const BlockHalf& half, HalfStep step, std::vector<SharedTensor> inputs,
                  SharedTensor output) {
  return StepOn(std::move(inputs), std::move(output), SeedOf(half, step));
}

// ---- Layer norm

double ExpectedNorm(const std::vector<float>& x, long column) {
  double sum = 0;
  double squares = 0;
  for (const double value : x) {
    sum += value;
    squares += value * value;
  }
  const auto count = static_cast<double>(x.size());
  const double mean = sum / count;
  const double variance = squares / count - mean * mean;
  return NormGain(std::ssize(x)) * (x[column] - mean) / std::sqrt(variance + kNormEpsilon);
}

TensorStep Norm(const BlockHalf& half) {
  const auto& [x, y] = std::tie(half.x, half.normed);
  TensorStep step = StepOf(half, HalfStep::kNorm, {x}, y);
  step.enqueue = [x, y](Stream& stream, long first, long rows) {
    const TensorShape& shape = x->shape();
    EnqueueLayerNorm(stream, shape.element, rows, shape.columns, NormGain(shape.columns),
                     x->Row(first), y->Row(first));
  };
  step.expected = [x](HeldRows& held, long row, long column) {
    return ExpectedNorm(held.Row(x, row), column);
  };
  return step;
}

// ---- Attention

// One element: the softmax of a query's scores times the values of one column.
ExpectedValue ExpectedAttention(HeldRows& held, const Attended& attended, long row, long column) {
  const auto& [rows, sequence, inner] = attended;
  const long first = attended.FirstOf(row);
  const long head = column / kAttentionDim * kAttentionDim;
  const std::vector<float>& query = held.Row(rows, row);
  std::vector<double> scores(sequence);
  for (long token = 0; token < sequence; ++token)
    scores[token] = Dot(query, head, held.Row(rows, first + token), inner + head);
  return WeightedSum(Probabilities(std::move(scores)),
                     [&](long token) { return held.Row(rows, first + token)[2 * inner + column]; });
}

TensorStep Attend(const Machine& machine, const BlockHalf& half) {
  PrepareAttention(machine.device);
  const Attended attended(half);
  const SharedTensor& y = half.activated;
  TensorStep step = StepOf(half, HalfStep::kActivate, {attended.widened}, y);
  constexpr double kProducts = 4;  // as FlashAttention's papers count
  step.cost.flops =
      kProducts * static_cast<double>(y->count()) * static_cast<double>(attended.sequence);
  step.enqueue = [attended, y](Stream& stream, long first, long rows) {
    EnqueueAttention(stream, attended.ProblemOf(first, rows, y->Row(first)));
  };
  step.error = [element = y->shape().element, sequence = attended.sequence] {
    return AttentionError(element, sequence);
  };
  step.expected = [attended](HeldRows& held, long row, long column) {
    return ExpectedAttention(held, attended, row, column);
  };
  return step;
}

// ---- GELU, dropout and residual

TensorStep Gelu(const BlockHalf& half) {
  const auto& [x, y] = std::tie(half.widened, half.activated);
  TensorStep step = StepOf(half, HalfStep::kActivate, {x}, y);
  step.enqueue = [x, y](Stream& stream, long first, long rows) {
    GeluProblem problem;
    problem.element = y->shape().element;
    problem.tensors.input = x->Row(first);
    problem.tensors.output = y->Row(first);
    problem.tensors.count = rows * y->shape().columns;
    LaunchGelu(stream, problem);
  };
  step.error = [element = y->shape().element] { return RoundingError{GeluTolerance(element)}; };
  step.expected = [x](HeldRows& held, long row, long column) {
    return GeluValue(GeluForm::kTanh, held.Row(x, row)[column]);
  };
  return step;
}

TensorStep Mask(const BlockHalf& half) {
  const SharedTensor mask = half.mask;
  TensorStep step = StepOf(half, HalfStep::kMask, {}, mask);
  step.enqueue = [mask, seed = step.seed](Stream& stream, long first, long rows) {
    const TensorShape& shape = mask->shape();
    EnqueueDropoutMask(stream, shape.element, first * shape.columns, rows * shape.columns, seed,
                       mask->Row(first));
  };
  step.expected = [columns = mask->shape().columns, seed = step.seed](HeldRows& /*held*/, long row,
                                                                      long column) {
    return DropoutMask(seed, row * columns + column);
  };
  return step;
}

TensorStep Residual(const BlockHalf& half) {
  const auto& [x, mask, sum, y] = std::tie(half.x, half.mask, half.sum, half.y);
  TensorStep step = StepOf(half, HalfStep::kResidual, {x, mask, sum}, y);
  step.enqueue = [x, mask, sum, y](Stream& stream, long first, long rows) {
    const TensorShape& shape = y->shape();
    EnqueueResidual(stream, shape.element, rows * shape.columns, x->Row(first), mask->Row(first),
                    sum->Row(first), y->Row(first));
  };
  step.expected = [x, mask, sum](HeldRows& held, long row, long column) {
    return static_cast<double>(held.Row(x, row)[column]) +
           static_cast<double>(held.Row(mask, row)[column]) * held.Row(sum, row)[column];
  };
  return step;
}

}  // namespace

float NormGain(long columns) { return std::sqrt(3.0F / static_cast<float>(columns)); }

const char* ToString(HalfStep step) {
  static constexpr const char* kNames[kSteps] = {"norm",   "widen", "activate",
                                                 "narrow", "mask",  "residual"};
  return kNames[static_cast<int>(step)];
}

BlockHalf MakeBlockHalf(Device& device, const HalfShape& shape, SharedTensor x,
                        SharedTensor partial, SharedTensor sum, std::uint32_t seed) {
  const auto make = [&](long rows, long columns, bool is_shared) {
    return MakeTensor(device, {.element = LayerElement(device),
                               .rows = rows,
                               .columns = columns,
                               .is_shared = is_shared});
  };
  const long wide = shape.attends ? 3 * shape.inner : shape.inner;
  return {.attends = shape.attends,
          .sequences = shape.sequences,
          .seed = seed,
          .x = std::move(x),
          .normed = make(shape.tokens, shape.hidden, true),
          .widen = make(shape.hidden, wide, false),
          .widened = make(shape.tokens, wide, false),
          .activated = make(shape.tokens, shape.inner, false),
          .narrow = make(shape.inner, shape.hidden, false),
          .partial = std::move(partial),
          .sum = std::move(sum),
          .mask = make(shape.tokens, shape.hidden, true),
          .y = make(shape.tokens, shape.hidden, true)};
}

StepTensors TensorsOf(const BlockHalf& half, HalfStep step) {
  const std::array<StepTensors, kSteps> of_steps = {{{{half.x, half.normed}},
                                                     {{half.widened, half.widen}, true},
                                                     {{half.activated}},
                                                     {{half.partial, half.narrow}, true},
                                                     {{half.mask}},
                                                     {{half.y}}}};
  return of_steps.at(static_cast<std::size_t>(step));
}

std::unique_ptr<Workload> MakeHalfStep(const Machine& machine, const BlockHalf& half,
                                       HalfStep step) {
  const auto make = [&]() -> TensorStep {
    switch (step) {
      case HalfStep::kNorm:
        return Norm(half);
      case HalfStep::kWiden:
        return ProductStep(machine, half.normed, half.widen, half.widened, Transposed::kNone,
                           SeedOf(half, step));
      case HalfStep::kActivate:
        return half.attends ? Attend(machine, half) : Gelu(half);
      case HalfStep::kNarrow:
        return ProductStep(machine, half.activated, half.narrow, half.partial, Transposed::kNone,
                           SeedOf(half, step));
      case HalfStep::kMask:
        return Mask(half);
      case HalfStep::kResidual:
        return Residual(half);
    }
    throw Error("a half of a block has no such step");
  };
  return MakeTensorStep(machine, make());
}

}  // namespace overlapbench
