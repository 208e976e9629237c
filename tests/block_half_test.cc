// The halves of a transformer block: every step computes the right result from its inputs, whole
// and in parts, and wrong results are found.
#include "kernels/block_half.h"

#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "block_steps.h"
#include "comm/tensor_collective.h"

namespace overlapbench {
namespace {

constexpr HalfStep kAll[] = {HalfStep::kNorm,   HalfStep::kWiden, HalfStep::kActivate,
                             HalfStep::kNarrow, HalfStep::kMask,  HalfStep::kResidual};

class BlockHalfTest : public BlockStepsTest {
 protected:
  BlockHalf Make(bool attends) { return MakeHalf(attends, 2); }
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
    return Prepared(MakeHalfStep(machine(), half, step));
  }
};
INSTANTIATE_ON_EACH_BACKEND(BlockHalfTest);

TEST_P(BlockHalfTest, EveryStepIsCorrectWholeAndInParts) {
  for (const bool attends : {true, false}) {
    for (const HalfStep step : kAll) {
      SCOPED_TRACE(std::string(ToString(step)) + (attends ? " of attention" : ""));
      ExpectCorrectWholeAndInParts(*Prepare(Make(attends), step));
    }
  }
}

TEST_P(BlockHalfTest, EveryStepRejectsAResultOfOtherInputs) {
  for (const bool attends : {true, false}) {
    for (const HalfStep step : kAll) {
      SCOPED_TRACE(std::string(ToString(step)) + (attends ? " of attention" : ""));
      const BlockHalf half = Make(attends);
      ExpectRejects(*Prepare(half, step), ResultOf(half, step));
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
      workload->Enqueue(stream());
      const Verdict first = workload->Verify(stream());
      EXPECT_EQ(first.fault, "");
      const Verdict again = workload->Verify(stream());
      EXPECT_EQ(again.fault, "");
      EXPECT_EQ(again.max_rel_err, first.max_rel_err);
      Fill(input);
      EXPECT_NE(FaultOf(*workload), "") << "the input changed: " << ToString(step);
      workload->Reset(stream());
      workload->Enqueue(stream());
      EXPECT_EQ(FaultOf(*workload), "");
      Fill(ResultOf(half, step));
      EXPECT_NE(FaultOf(*workload), "") << "the result changed: " << ToString(step);
    }
  }
}

TEST_P(BlockHalfTest, InputsOfItsStepsDiffer) {
  const BlockHalf half = Make(true);
  ExpectDifferent<HalfStep>({{HalfStep::kNorm, half.x},
                             {HalfStep::kWiden, half.normed},
                             {HalfStep::kWiden, half.widen},
                             {HalfStep::kActivate, half.widened},
                             {HalfStep::kNarrow, half.activated},
                             {HalfStep::kNarrow, half.narrow},
                             {HalfStep::kResidual, half.x},
                             {HalfStep::kResidual, half.mask},
                             {HalfStep::kResidual, half.sum}},
                            [&](HalfStep step) { Prepare(half, step); });
}

// The first half of the tokens is one sequence: it must not depend on the other half.
TEST_P(BlockHalfTest, AttentionStaysWithinASequence) {
  const BlockHalf half = Make(true);
  const auto workload = Prepare(half, HalfStep::kActivate);
  const auto first_row = [&] { return HeldRows(stream(), kPatience).Row(half.activated, 0); };
  workload->Enqueue(stream());
  const std::vector<float> before = first_row();
  half.widened->PoisonRows(stream(), kAttentionTokens, kAttentionTokens);
  workload->Enqueue(stream());
  EXPECT_EQ(first_row(), before);
  half.widened->PoisonRows(stream(), kAttentionTokens - 1, 1);
  workload->Enqueue(stream());
  EXPECT_TRUE(std::isnan(first_row().front()));
}

TEST_P(BlockHalfTest, NormedRowsHaveNoMeanAndTheVarianceOfTheGain) {
  const BlockHalf half = Make(false);
  const auto workload = Prepare(half, HalfStep::kNorm);
  workload->Enqueue(stream());
  HeldRows held(stream(), kPatience);
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
  workload->Enqueue(stream());
  HeldRows held(stream(), kPatience);
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
  sum->Reset(stream());
  Fill(half.partial);  // with values that none of the collective's seeds makes
  sum->Enqueue(stream());
  EXPECT_EQ(FaultOf(*sum), "");
  if (TestRanks().rank() == 0) Fill(half.sum, kSeed + 2);
  EXPECT_EQ(FaultOf(*sum).empty(), TestRanks().rank() != 0);
}

}  // namespace
}  // namespace overlapbench
