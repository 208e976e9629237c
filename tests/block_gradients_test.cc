// The gradients of half a transformer block: every step computes the right result from its inputs,
// whole and in parts; wrong results are found; and the steps together are the derivative of the
// forward pass.
#include "kernels/block_gradients.h"

#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <ranges>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "kernels/attention_gradients.h"
#include "kernels/linear.h"
#include "test_ranks.h"
#include "workload/tensor_step.h"

namespace overlapbench {
namespace {

constexpr std::uint32_t kSeed = 9000;

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

class BlockGradientsTest : public RanksOnEachBackend {
 protected:
  static constexpr long kTokens = 2 * kAttentionTokens;
  static constexpr long kHidden = 64;
  static constexpr long kHeads = 2;

  Machine machine() { return {device(), TestRanks(), kPatience}; }
  SharedTensor OfTokens() {
    return MakeTensor(device(),
                      {.element = LayerElement(device()), .rows = kTokens, .columns = kHidden});
  }
  // Two sequences, of two heads of attention or as many columns.
  BlockGradients Make(bool attends) {
    const HalfShape shape{.attends = attends,
                          .tokens = kTokens,
                          .sequences = 2,
                          .hidden = kHidden,
                          .inner = kHeads * kAttentionDim};
    const BlockHalf half =
        MakeBlockHalf(device(), shape, OfTokens(), OfTokens(), OfTokens(), kSeed);
    return MakeBlockGradients(device(), half, OfTokens(), OfTokens(), OfTokens(), 2 * kSeed);
  }
  std::unique_ptr<Workload> Prepare(const BlockGradients& gradients, GradientStep step) {
    auto workload = MakeGradientStep(machine(), gradients, step);
    workload->Connect();
    workload->Reset(*stream_);
    stream_->Synchronize(kPatience, "filling");
    return workload;
  }
  void Fill(const SharedTensor& tensor) {
    tensor->Fill(*stream_, TestRanks().rank(), kSeed + 1);
    stream_->Synchronize(kPatience, "filling");
  }
  void Copy(const SharedTensor& from, const SharedTensor& to) {
    stream_->Copy(to->Row(0), from->Row(0), from->shape().bytes());
    stream_->Synchronize(kPatience, "copying");
  }
  void SetUp() override {
    RanksOnEachBackend::SetUp();
    if (!IsSkipped()) stream_ = device().CreateStream();
  }

  std::unique_ptr<Stream> stream_;
};
INSTANTIATE_ON_EACH_BACKEND(BlockGradientsTest);

TEST_P(BlockGradientsTest, EveryStepIsCorrectWholeAndInParts) {
  for (const bool attends : {true, false}) {
    const BlockGradients gradients = Make(attends);
    for (const GradientStep step : StepsOf(gradients.half)) {
      const auto workload = Prepare(gradients, step);
      EXPECT_NE(workload->Verify(*stream_).fault, "") << "nothing was written";
      workload->Enqueue(*stream_);
      EXPECT_EQ(workload->Verify(*stream_).fault, "") << ToString(step) << attends;
      if (IsWeight(step)) continue;
      const auto whole = workload->Fingerprint();
      workload->Reset(*stream_);
      for (long part = 0; part < 2; ++part) workload->EnqueuePart(*stream_, {part, 2});
      EXPECT_EQ(workload->Verify(*stream_).fault, "") << ToString(step) << attends;
      EXPECT_EQ(workload->Fingerprint(), whole) << ToString(step) << attends;
    }
  }
}

TEST_P(BlockGradientsTest, EveryStepRejectsAResultOfOtherInputs) {
  for (const bool attends : {true, false}) {
    const BlockGradients gradients = Make(attends);
    for (const GradientStep step : StepsOf(gradients.half)) {
      const auto workload = Prepare(gradients, step);
      workload->Enqueue(*stream_);
      Fill(ResultOf(gradients, step));
      EXPECT_NE(workload->Verify(*stream_).fault, "") << ToString(step) << attends;
    }
  }
}

TEST_P(BlockGradientsTest, InputsOfItsStepsDiffer) {
  const BlockGradients gradients = Make(true);
  using enum GradientStep;
  const std::vector<std::pair<GradientStep, SharedTensor>> inputs = {
      {kDropout, gradients.half.mask},
      {kDropout, gradients.dy},
      {kNarrowInput, gradients.d_sum},
      {kLogSums, gradients.half.widened},
      {kActivate, gradients.log_sums},
      {kActivate, gradients.products},
      {kWidenInput, gradients.d_widened},
      {kNarrowWeight, gradients.half.activated},
      {kWidenWeight, gradients.half.normed},
      {kNorm, gradients.half.x},
      {kNorm, gradients.d_normed}};
  std::set<std::vector<float>> found;
  for (const auto& [step, input] : inputs) {
    Prepare(gradients, step);
    const std::vector<float> row = HeldRows(*stream_, kPatience).Row(input, 0);
    found.emplace(row.begin(), row.begin() + 2);
  }
  EXPECT_EQ(found.size(), inputs.size());
}

TEST_P(BlockGradientsTest, WeightsAreSumsOverAllTokens) {
  const auto workload = Prepare(Make(false), GradientStep::kWidenWeight);
  EXPECT_THROW(workload->EnqueuePart(*stream_, {0, 2}), Error);
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
      for (const auto& work : *works | std::views::reverse) work->Reset(*stream_);
    }
  }
  void Forward() {
    const BlockHalf& half = gradients_.half;
    for (const auto& work : forward_) {
      if (work == forward_.back()) Copy(half.partial, half.sum);
      work->Enqueue(*stream_);
    }
  }
  void Backward() {
    for (const auto& work : backward_) {
      if (work == backward_.back()) Copy(gradients_.d_partial, gradients_.d_normed);
      work->Enqueue(*stream_);
    }
  }
  double Product(const SharedTensor& left, const SharedTensor& right) {
    HeldRows held(*stream_, kPatience);
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
    stream_->Copy(values.data(), tensor->Row(0), count * sizeof(float));
    stream_->Synchronize(kPatience, "reading");
    std::vector<float> moved = values;
    HeldRows held(*stream_, kPatience);
    const long columns = tensor->shape().columns;
    for (std::size_t i = 0; i < count; ++i)
      moved[i] += length * held.Row(direction, static_cast<long>(i) / columns)[i % columns];
    stream_->Copy(tensor->Row(0), moved.data(), count * sizeof(float));
    Forward();
    const double loss = Product(gradients_.half.y, gradients_.dy);
    stream_->Copy(tensor->Row(0), values.data(), count * sizeof(float));
    stream_->Synchronize(kPatience, "writing");
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
