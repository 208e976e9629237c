// The gradients of half a transformer block: every step computes the right result from its inputs,
// whole and in parts; wrong results are found; and the steps together are the derivative of the
// forward pass.
#include "kernels/block_gradients.h"

#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <ranges>
#include <string>
#include <utility>
#include <vector>

#include "block_steps.h"
#include "kernels/attention_gradients.h"

namespace overlapbench {
namespace {

bool IsWeight(GradientStep step) {
  return step == GradientStep::kNarrowWeight || step == GradientStep::kWidenWeight;
}

std::vector<GradientStep> StepsOf(const BlockHalf& half) {
  const auto before = StepsBeforeSum(half);
  std::vector<GradientStep> steps(before.begin(), before.end());
  for (const auto step :
       {GradientStep::kNarrowWeight, GradientStep::kWidenWeight, GradientStep::kNorm})
    steps.push_back(step);
  return steps;
}

// GPUs with less than the data centre's.
TEST(AttentionGradients, NeedABlocksSharedMemory) {
  DeviceInfo device;
  for (const int capability : {0, 80, 87, 90, 100, 103}) {
    device.compute_capability = capability;
    EXPECT_EQ(AttentionGradientsUnavailable(device), "") << capability;
  }
  for (const auto& [capability, shown] : {std::pair{86, "8.6"}, {89, "8.9"}, {120, "12.0"}}) {
    device.compute_capability = capability;
    EXPECT_EQ(AttentionGradientsUnavailable(device),
              "attention's backward pass needs 129 KiB of shared memory per block, GPUs of compute "
              "capability " +
                  std::string(shown) + " have 99");
  }
}

class BlockGradientsTest : public BlockStepsTest {
 protected:
  BlockGradients Make(bool attends) {
    return MakeBlockGradients(device(), MakeHalf(attends, 2), OfTokens(), OfTokens(), OfTokens(),
                              2 * kSeed);
  }
  std::unique_ptr<Workload> Prepare(const BlockGradients& gradients, GradientStep step) {
    return Prepared(MakeGradientStep(machine(), gradients, step));
  }
  void Copy(const SharedTensor& from, const SharedTensor& to) {
    stream().Copy(to->Row(0), from->Row(0), from->shape().bytes());
    Finish();
  }
};
INSTANTIATE_ON_EACH_BACKEND(BlockGradientsTest);

TEST_P(BlockGradientsTest, EveryStepIsCorrectWholeAndInParts) {
  for (const bool attends : {true, false}) {
    const BlockGradients gradients = Make(attends);
    for (const GradientStep step : StepsOf(gradients.half)) {
      SCOPED_TRACE(std::string(ToString(step)) + (attends ? " of attention" : ""));
      ExpectCorrectWholeAndInParts(*Prepare(gradients, step), !IsWeight(step));
    }
  }
}

TEST_P(BlockGradientsTest, EveryStepRejectsAResultOfOtherInputs) {
  for (const bool attends : {true, false}) {
    const BlockGradients gradients = Make(attends);
    for (const GradientStep step : StepsOf(gradients.half)) {
      SCOPED_TRACE(std::string(ToString(step)) + (attends ? " of attention" : ""));
      ExpectRejects(*Prepare(gradients, step), ResultOf(gradients, step));
    }
  }
}

TEST_P(BlockGradientsTest, InputsOfItsStepsDiffer) {
  const BlockGradients gradients = Make(true);
  using enum GradientStep;
  ExpectDifferent<GradientStep>({{kDropout, gradients.half.mask},
                                 {kDropout, gradients.dy},
                                 {kNarrowInput, gradients.d_sum},
                                 {kLogSums, gradients.half.widened},
                                 {kActivate, gradients.log_sums},
                                 {kActivate, gradients.products},
                                 {kWidenInput, gradients.d_widened},
                                 {kNarrowWeight, gradients.half.activated},
                                 {kWidenWeight, gradients.half.normed},
                                 {kNorm, gradients.half.x},
                                 {kNorm, gradients.d_normed}},
                                [&](GradientStep step) { Prepare(gradients, step); });
}

TEST_P(BlockGradientsTest, WeightsAreSumsOverAllTokens) {
  const auto workload = Prepare(Make(false), GradientStep::kWidenWeight);
  EXPECT_THROW(workload->EnqueuePart(stream(), {0, 2}), Error);
}

// A half with its sum over one rank, and the product of its result with dy in place of a loss.
class DifferenceTest : public BlockGradientsTest {
 protected:
  void Prepare(bool attends) {
    gradients_ = Make(attends);
    for (const HalfStep step : {HalfStep::kNorm, HalfStep::kWiden, HalfStep::kActivate,
                                HalfStep::kNarrow, HalfStep::kMask, HalfStep::kResidual})
      forward_.push_back(MakeHalfStep(machine(), gradients_.half, step));
    for (const GradientStep step : StepsOf(gradients_.half))
      backward_.push_back(MakeGradientStep(machine(), gradients_, step));
    for (auto* works : {&backward_, &forward_}) {
      for (const auto& work : *works) work->Connect();
      for (const auto& work : *works | std::views::reverse) work->Reset(stream());
    }
  }
  void Forward() {
    const BlockHalf& half = gradients_.half;
    for (const auto& work : forward_) {
      if (work == forward_.back()) Copy(half.partial, half.sum);
      work->Enqueue(stream());
    }
  }
  void Backward() {
    for (const auto& work : backward_) {
      if (work == backward_.back()) Copy(gradients_.d_partial, gradients_.d_normed);
      work->Enqueue(stream());
    }
  }
  double Product(const SharedTensor& left, const SharedTensor& right) {
    HeldRows held(stream(), kPatience);
    double sum = 0;
    for (long row = 0; row < left->shape().rows; ++row)
      for (long i = 0; i < left->shape().columns; ++i)
        sum += static_cast<double>(held.Row(left, row)[i]) * held.Row(right, row)[i];
    return sum;
  }
  // The loss after moving `tensor` by `length` times `direction`.
  double LossAt(const SharedTensor& tensor, const SharedTensor& direction, float length) {
    const auto count = static_cast<std::size_t>(tensor->count());
    std::vector<float> values(count);
    stream().Copy(values.data(), tensor->Row(0), count * sizeof(float));
    stream().Synchronize(kPatience, "reading");
    std::vector<float> moved = values;
    HeldRows held(stream(), kPatience);
    const long columns = tensor->shape().columns;
    for (std::size_t i = 0; i < count; ++i)
      moved[i] += length * held.Row(direction, static_cast<long>(i) / columns)[i % columns];
    stream().Copy(tensor->Row(0), moved.data(), count * sizeof(float));
    Forward();
    const double loss = Product(gradients_.half.y, gradients_.dy);
    stream().Copy(tensor->Row(0), values.data(), count * sizeof(float));
    stream().Synchronize(kPatience, "writing");
    return loss;
  }

  BlockGradients gradients_;
  std::vector<std::unique_ptr<Workload>> forward_;
  std::vector<std::unique_ptr<Workload>> backward_;
};
INSTANTIATE_ON_EACH_BACKEND(DifferenceTest);

TEST_P(DifferenceTest, ForwardDifferencesMatchTheBackwardPass) {
  if (LayerElement(device()) != Element::kFloat32)
    GTEST_SKIP() << "bfloat16 is too coarse for differences";
  constexpr float kLength = 1e-3F;
  for (const bool attends : {true, false}) {
    forward_.clear();
    backward_.clear();
    Prepare(attends);
    Forward();
    Backward();
    const BlockHalf& half = gradients_.half;
    for (const auto& [tensor, gradient] :
         {std::pair(half.x, gradients_.dx), std::pair(half.widen, gradients_.d_widen),
          std::pair(half.narrow, gradients_.d_narrow)}) {
      const SharedTensor direction = MakeTensor(device(), tensor->shape());
      direction->Connect();
      Fill(direction);
      const double slope = Product(gradient, direction);
      const double difference =
          LossAt(tensor, direction, kLength) - LossAt(tensor, direction, -kLength);
      const double expected = 2 * static_cast<double>(kLength) * slope;
      const double scale =
          2 * static_cast<double>(kLength) * std::sqrt(Product(gradient, gradient));
      EXPECT_NEAR(difference, expected, 0.01 * scale) << attends;
      EXPECT_GT(std::abs(expected), 0.05 * scale) << "a direction in which nothing changes";
    }
  }
}

}  // namespace
}  // namespace overlapbench
