// The halves of a transformer block: every step computes the right result from its inputs, whole
// and in parts, and wrong results are found.
#include "kernels/block_half.h"

#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "comm/tensor_collective.h"
#include "kernels/attention.h"
#include "kernels/linear.h"
#include "kernels/token_steps.h"
#include "test_ranks.h"
#include "workload/tensor_step.h"

namespace overlapbench {
namespace {

constexpr std::uint32_t kSeed = 900;
constexpr HalfStep kAll[] = {HalfStep::kNorm,   HalfStep::kWiden, HalfStep::kActivate,
                             HalfStep::kNarrow, HalfStep::kMask,  HalfStep::kResidual};

class BlockHalfTest : public RanksOnEachBackend {
 protected:
  Machine machine() { return {device(), TestRanks(), kPatience}; }
  // Two sequences, of one head of attention or twice as many columns.
  BlockHalf Make(bool attends) {
    constexpr long kTokens = 2 * kAttentionTokens;
    constexpr long kHidden = 64;
    const auto tensor = [&] {
      return MakeTensor(device(),
                        {.element = LayerElement(device()), .rows = kTokens, .columns = kHidden});
    };
    const HalfShape shape{.attends = attends,
                          .tokens = kTokens,
                          .sequences = 2,
                          .hidden = kHidden,
                          .inner = kAttentionDim};
    return MakeBlockHalf(device(), shape, tensor(), tensor(), tensor(), kSeed);
  }
  static SharedTensor ResultOf(const BlockHalf& half, HalfStep step) {
    switch (step) {
      case HalfStep::kNorm:
        return half.normed;
      case HalfStep::kWiden:
        return half.widened;
      case HalfStep::kActivate:
        return half.activated;
      case HalfStep::kNarrow:
        return half.partial;
      case HalfStep::kMask:
        return half.mask;
      case HalfStep::kResidual:
        return half.y;
    }
    return nullptr;
  }
  std::unique_ptr<Workload> Prepare(const BlockHalf& half, HalfStep step) {
    auto workload = MakeHalfStep(machine(), half, step);
    workload->Connect();
    workload->Reset(*stream_);
    return workload;
  }
  void Fill(const SharedTensor& tensor, std::uint32_t seed = kSeed + 1) {
    tensor->Fill(*stream_, TestRanks().rank(), seed);
    stream_->Synchronize(kPatience, "filling");
  }
  void SetUp() override {
    RanksOnEachBackend::SetUp();
    if (!IsSkipped()) stream_ = device().CreateStream();
  }

  std::unique_ptr<Stream> stream_;
};
INSTANTIATE_ON_EACH_BACKEND(BlockHalfTest);

TEST_P(BlockHalfTest, EveryStepIsCorrectWholeAndInParts) {
  for (const bool attends : {true, false}) {
    for (const HalfStep step : kAll) {
      const BlockHalf half = Make(attends);
      const auto workload = Prepare(half, step);
      EXPECT_NE(workload->Verify(*stream_).fault, "") << "nothing was written";
      workload->Enqueue(*stream_);
      EXPECT_EQ(workload->Verify(*stream_).fault, "") << ToString(step) << attends;
      const auto whole = workload->Fingerprint();
      workload->Reset(*stream_);
      for (long part = 0; part < 2; ++part) workload->EnqueuePart(*stream_, {part, 2});
      EXPECT_EQ(workload->Verify(*stream_).fault, "") << ToString(step) << attends;
      EXPECT_EQ(workload->Fingerprint(), whole) << ToString(step) << attends;
    }
  }
}

TEST_P(BlockHalfTest, EveryStepRejectsAResultOfOtherInputs) {
  for (const bool attends : {true, false}) {
    for (const HalfStep step : kAll) {
      const BlockHalf half = Make(attends);
      const auto workload = Prepare(half, step);
      workload->Enqueue(*stream_);
      Fill(ResultOf(half, step));
      EXPECT_NE(workload->Verify(*stream_).fault, "") << ToString(step) << attends;
    }
  }
}

// A result is compared once, and again where its bits or those of an input have changed since.
TEST_P(BlockHalfTest, VerifiesAgainAfterAnyInputChanges) {
  for (const bool attends : {true, false}) {
    const BlockHalf half = Make(attends);
    const std::vector<std::pair<HalfStep, SharedTensor>> inputs = {
        {HalfStep::kNorm, half.x},           {HalfStep::kWiden, half.widen},
        {HalfStep::kActivate, half.widened}, {HalfStep::kNarrow, half.activated},
        {HalfStep::kResidual, half.mask},    {HalfStep::kResidual, half.sum}};
    for (const auto& [step, input] : inputs) {
      const auto workload = Prepare(half, step);
      workload->Enqueue(*stream_);
      const Verdict first = workload->Verify(*stream_);
      EXPECT_EQ(first.fault, "");
      const Verdict again = workload->Verify(*stream_);
      EXPECT_EQ(again.fault, "");
      EXPECT_EQ(again.max_rel_err, first.max_rel_err);
      Fill(input);
      EXPECT_NE(workload->Verify(*stream_).fault, "") << "the input changed: " << ToString(step);
      workload->Reset(*stream_);
      workload->Enqueue(*stream_);
      EXPECT_EQ(workload->Verify(*stream_).fault, "");
      Fill(ResultOf(half, step));
      EXPECT_NE(workload->Verify(*stream_).fault, "") << "the result changed: " << ToString(step);
    }
  }
}

// No step can have read what another one is given.
TEST_P(BlockHalfTest, InputsOfItsStepsDiffer) {
  const BlockHalf half = Make(true);
  const std::vector<std::pair<HalfStep, SharedTensor>> inputs = {
      {HalfStep::kNorm, half.x},           {HalfStep::kWiden, half.normed},
      {HalfStep::kWiden, half.widen},      {HalfStep::kActivate, half.widened},
      {HalfStep::kNarrow, half.activated}, {HalfStep::kNarrow, half.narrow},
      {HalfStep::kResidual, half.x},       {HalfStep::kResidual, half.mask},
      {HalfStep::kResidual, half.sum}};
  std::set<std::vector<float>> found;
  for (const auto& [step, input] : inputs) {
    Prepare(half, step);
    const std::vector<float> row = HeldRows(*stream_, kPatience).Row(input, 0);
    found.emplace(row.begin(), row.begin() + 16);
  }
  EXPECT_EQ(found.size(), inputs.size());
}

// The first half of the tokens is one sequence: it must not depend on the other half.
TEST_P(BlockHalfTest, AttentionStaysWithinASequence) {
  const BlockHalf half = Make(true);
  const auto workload = Prepare(half, HalfStep::kActivate);
  const auto first_row = [&] { return HeldRows(*stream_, kPatience).Row(half.activated, 0); };
  workload->Enqueue(*stream_);
  const std::vector<float> before = first_row();
  half.widened->PoisonRows(*stream_, kAttentionTokens, kAttentionTokens);
  workload->Enqueue(*stream_);
  EXPECT_EQ(first_row(), before);
  half.widened->PoisonRows(*stream_, kAttentionTokens - 1, 1);
  workload->Enqueue(*stream_);
  EXPECT_TRUE(std::isnan(first_row().front()));
}

TEST_P(BlockHalfTest, NormedRowsHaveNoMeanAndTheVarianceOfTheGain) {
  const BlockHalf half = Make(false);
  const auto workload = Prepare(half, HalfStep::kNorm);
  workload->Enqueue(*stream_);
  HeldRows held(*stream_, kPatience);
  for (const long row : {0L, 77L, 255L}) {
    double sum = 0;
    double squares = 0;
    for (const double value : held.Row(half.normed, row)) {
      sum += value;
      squares += value * value;
    }
    EXPECT_NEAR(sum, 0, 0.05);
    EXPECT_NEAR(squares, 3, 0.05) << "64 columns of 3/64";
  }
}

TEST_P(BlockHalfTest, TheMaskKeepsSevenOfEight) {
  const BlockHalf half = Make(false);
  const auto workload = Prepare(half, HalfStep::kMask);
  workload->Enqueue(*stream_);
  HeldRows held(*stream_, kPatience);
  double sum = 0;
  for (long row = 0; row < 256; ++row)
    for (const double value : held.Row(half.mask, row)) sum += value;
  EXPECT_NEAR(sum / (256 * 64), 1, 0.02);
}

TEST_P(BlockHalfTest, SumsWhatTheRanksActuallyHold) {
  const BlockHalf half = Make(false);
  Settings settings;
  const auto transports = std::make_shared<Transports>(machine());
  for (const Axis& axis : TransportAxes(machine())) settings.Set(axis, axis.standing);
  const auto sum =
      MakeTensorCollective(machine(), std::make_shared<LaneCommunicator>(transports, settings),
                           {{.operation = Operation::kAllReduce,
                             .send = half.partial,
                             .receive = half.sum,
                             .rows = 256,
                             .of_held = true}},
                           kSeed);
  sum->Connect();
  sum->Reset(*stream_);
  Fill(half.partial);  // with values that none of the collective's seeds makes
  sum->Enqueue(*stream_);
  EXPECT_EQ(sum->Verify(*stream_).fault, "");
  if (TestRanks().rank() == 0) Fill(half.sum, kSeed + 2);
  EXPECT_EQ(sum->Verify(*stream_).fault.empty(), TestRanks().rank() != 0);
}

}  // namespace
}  // namespace overlapbench
