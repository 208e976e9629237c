#include <array>
#include <span>

#include "device/launch.h"
#include "kernels/gelu.h"
#include "kernels/gelu_math.h"
#include "workload/element.h"
#ifdef __CUDACC__
#include "kernels/cuda/launchers.h"
#endif

namespace overlapbench {
namespace {

constexpr int kGeluThreads = 256;

int BlocksFor(long count) { return static_cast<int>((count + kGeluThreads - 1) / kGeluThreads); }

// Visits the elements of a block: one per thread on a GPU.
template <class Visit>
OVERLAPBENCH_BODY void ForEachOfBlock(const Block& block, long count, Visit visit) {
  const long first = static_cast<long>(block.index) * kGeluThreads;
  for (long i = first + block.thread; i < first + kGeluThreads && i < count; i += block.threads) {
    visit(i);
  }
}

// ---- Unfused: a program of elementwise operations, one launch each.

enum class Operation : std::uint8_t { kMultiply, kAdd, kReverseSubtract, kTanh, kErf, kExp };
enum class Operand : std::uint8_t { kInput, kGrad, kOutput, kScratch, kConstant };

// target = left ∘ right, or a function of `left` only.
struct Step {
  Operand target;
  Operation operation;
  Operand left;
  Operand right = Operand::kConstant;
  float constant = 0;
};

using enum Operation;
using enum Operand;
constexpr float kRootTwoOverPi = 0.7978845608F;
constexpr float kRootHalf = 0.7071067812F;
constexpr float kCubic = 0.044715F;

constexpr std::array<Step, 9> kTanhForward = {{
    {kOutput, kMultiply, kInput, kInput},
    {kOutput, kMultiply, kOutput, kInput},
    {kOutput, kMultiply, kOutput, kConstant, kCubic},
    {kOutput, kAdd, kOutput, kInput},
    {kOutput, kMultiply, kOutput, kConstant, kRootTwoOverPi},
    {kOutput, kTanh, kOutput},
    {kOutput, kAdd, kOutput, kConstant, 1},
    {kOutput, kMultiply, kOutput, kInput},
    {kOutput, kMultiply, kOutput, kConstant, 0.5F},
}};

// (1 + t)/2 · (1 + x·(1 − t)·u'), t = tanh(u)
constexpr std::array<Step, 18> kTanhBackward = {{
    {kScratch, kMultiply, kInput, kInput},
    {kScratch, kMultiply, kScratch, kInput},
    {kScratch, kMultiply, kScratch, kConstant, kCubic},
    {kScratch, kAdd, kScratch, kInput},
    {kScratch, kMultiply, kScratch, kConstant, kRootTwoOverPi},
    {kScratch, kTanh, kScratch},
    {kScratch, kReverseSubtract, kScratch, kConstant, 1},  // 1 − t
    {kOutput, kMultiply, kInput, kInput},
    {kOutput, kMultiply, kOutput, kConstant, 3 * kCubic},
    {kOutput, kAdd, kOutput, kConstant, 1},
    {kOutput, kMultiply, kOutput, kConstant, kRootTwoOverPi},  // u'
    {kOutput, kMultiply, kOutput, kInput},
    {kOutput, kMultiply, kOutput, kScratch},
    {kOutput, kAdd, kOutput, kConstant, 1},
    {kScratch, kReverseSubtract, kScratch, kConstant, 2},  // 1 + t
    {kOutput, kMultiply, kOutput, kScratch},
    {kOutput, kMultiply, kOutput, kConstant, 0.5F},
    {kOutput, kMultiply, kOutput, kGrad},
}};

constexpr std::array<Step, 5> kErfForward = {{
    {kOutput, kMultiply, kInput, kConstant, kRootHalf},
    {kOutput, kErf, kOutput},
    {kOutput, kAdd, kOutput, kConstant, 1},
    {kOutput, kMultiply, kOutput, kInput},
    {kOutput, kMultiply, kOutput, kConstant, 0.5F},
}};

// Φ(x) + x·φ(x)
constexpr std::array<Step, 11> kErfBackward = {{
    {kScratch, kMultiply, kInput, kConstant, kRootHalf},
    {kScratch, kErf, kScratch},
    {kScratch, kAdd, kScratch, kConstant, 1},
    {kScratch, kMultiply, kScratch, kConstant, 0.5F},
    {kOutput, kMultiply, kInput, kInput},
    {kOutput, kMultiply, kOutput, kConstant, -0.5F},
    {kOutput, kExp, kOutput},
    {kOutput, kMultiply, kOutput, kConstant, gelu::kInverseRootTwoPi},
    {kOutput, kMultiply, kOutput, kInput},
    {kOutput, kAdd, kOutput, kScratch},
    {kOutput, kMultiply, kOutput, kGrad},
}};

struct GeluStepBody {
  static constexpr int kThreads = kGeluThreads;
  Operation operation;
  Element element;
  const void* left;
  const void* right;  // nullptr: `constant`
  float constant;
  void* target;
  long count;

  OVERLAPBENCH_BODY void operator()(const Block& block) const {
    ForEachOfBlock(block, count, [this](long i) {
      const float a = LoadFloat(left, i, element);
      const float b = right == nullptr ? constant : LoadFloat(right, i, element);
      Store(target, i, element, Apply(a, b));
    });
  }

  [[nodiscard]] OVERLAPBENCH_BODY float Apply(float a, float b) const {
    switch (operation) {
      case kMultiply:
        return a * b;
      case kAdd:
        return a + b;
      case kReverseSubtract:
        return b - a;
      case kTanh:
        return tanhf(a);
      case kErf:
        return erff(a);
      case kExp:
        return expf(a);
    }
    return 0;
  }
};

std::span<const Step> Program(GeluForm form, GeluDirection direction) {
  const bool forward = direction == GeluDirection::kForward;
  if (form == GeluForm::kTanh) {
    return forward ? std::span<const Step>(kTanhForward) : std::span<const Step>(kTanhBackward);
  }
  return forward ? std::span<const Step>(kErfForward) : std::span<const Step>(kErfBackward);
}

// nullptr for a constant.
const void* TensorOf(Operand operand, const GeluTensors& tensors) {
  const std::array<const void*, 5> all = {tensors.input, tensors.grad, tensors.output,
                                          tensors.scratch, nullptr};
  return all[static_cast<std::size_t>(operand)];
}

void LaunchUnfused(Stream& stream, const GeluProblem& problem) {
  const GeluTensors& tensors = problem.tensors;
  for (const Step& step : Program(problem.form, problem.direction)) {
    Launch(stream, BlocksFor(tensors.count),
           GeluStepBody{step.operation, problem.element, TensorOf(step.left, tensors),
                        TensorOf(step.right, tensors), step.constant,
                        step.target == kOutput ? tensors.output : tensors.scratch, tensors.count});
  }
}

// ---- Fused, on the host backend.

struct FusedBody {
  GeluProblem problem;

  void operator()(const Block& block) const {
    if (problem.form == GeluForm::kTanh) {
      Run<gelu::Function<GeluForm::kTanh, gelu::Accuracy::kFine>>(block);
    } else if (problem.element == Element::kFloat32) {
      Run<gelu::Function<GeluForm::kErf, gelu::Accuracy::kFine>>(block);
    } else {
      Run<gelu::Function<GeluForm::kErf, gelu::Accuracy::kCoarse>>(block);
    }
  }

  template <class Function>
  void Run(const Block& block) const {
    const GeluTensors& tensors = problem.tensors;
    ForEachOfBlock(block, tensors.count, [&](long i) {
      const float x = LoadFloat(tensors.input, i, problem.element);
      const float value =
          problem.direction == GeluDirection::kForward
              ? Function::Value(x)
              : LoadFloat(tensors.grad, i, problem.element) * Function::Derivative(x);
      Store(tensors.output, i, problem.element, value);
    });
  }
};

}  // namespace

int GeluPasses(GeluVariant variant, GeluForm form, GeluDirection direction) {
  if (variant != GeluVariant::kUnfused) return direction == GeluDirection::kForward ? 2 : 3;
  int passes = 0;
  for (const Step& step : Program(form, direction)) {
    const bool one_operand = step.right == kConstant || step.right == step.left;
    passes += one_operand ? 2 : 3;
  }
  return passes;
}

void LaunchGelu(Stream& stream, const GeluProblem& problem) {
  if (problem.variant == GeluVariant::kUnfused) {
    LaunchUnfused(stream, problem);
  } else if (stream.on_host()) {
    const int blocks = BlocksFor(problem.tensors.count);
    const FusedBody body{problem};
    stream.EnqueueBlocks(blocks, [body, blocks](int index) { body(Block{index, blocks, 0, 1}); });
  } else {
#ifdef __CUDACC__
    LaunchFusedGelu(static_cast<cudaStream_t>(stream.native()), problem);
#endif
  }
}

}  // namespace overlapbench
