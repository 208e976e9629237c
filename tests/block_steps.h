// Half a transformer block of two sequences, and what is expected of the steps that compute it or
// its gradients.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "kernels/attention.h"
#include "kernels/block_half.h"
#include "kernels/linear.h"
#include "test_ranks.h"
#include "workload/tensor_step.h"

namespace overlapbench {

class BlockStepsTest : public RanksOnEachBackend {
 protected:
  static constexpr long kTokens = 2 * kAttentionTokens;
  static constexpr long kHidden = 64;
  static constexpr std::uint32_t kSeed = 9000;

  SharedTensor OfTokens() {
    return MakeTensor(device(),
                      {.element = LayerElement(device()), .rows = kTokens, .columns = kHidden});
  }
  // With so many heads of attention, or as many columns.
  BlockHalf MakeHalf(bool attends, long heads) {
    const HalfShape shape{.attends = attends,
                          .tokens = kTokens,
                          .sequences = 2,
                          .hidden = kHidden,
                          .inner = heads * kAttentionDim};
    return MakeBlockHalf(device(), shape, OfTokens(), OfTokens(), OfTokens(), kSeed);
  }
  std::unique_ptr<Workload> Prepared(std::unique_ptr<Workload> step) {
    step->Connect();
    step->Reset(stream());
    Finish();
    return step;
  }
  void Fill(const SharedTensor& tensor, std::uint32_t seed = kSeed + 1) {
    tensor->Fill(stream(), TestRanks().rank(), seed);
    Finish();
  }
  std::string FaultOf(Workload& step) { return step.Verify(stream()).fault; }

  // In two parts only if it `has_parts`.
  void ExpectCorrectWholeAndInParts(Workload& step, bool has_parts = true) {
    EXPECT_NE(FaultOf(step), "") << "nothing was written";
    step.Enqueue(stream());
    EXPECT_EQ(FaultOf(step), "");
    if (!has_parts) return;
    const auto whole = step.Fingerprint();
    step.Reset(stream());
    for (long part = 0; part < 2; ++part) step.EnqueuePart(stream(), {part, 2});
    EXPECT_EQ(FaultOf(step), "");
    EXPECT_EQ(step.Fingerprint(), whole);
  }
  void ExpectRejects(Workload& step, const SharedTensor& wrong_result) {
    step.Enqueue(stream());
    Fill(wrong_result);
    EXPECT_NE(FaultOf(step), "");
  }
  // No step can have read what another one is given. `prepare` fills what a step is given.
  template <class Step, class Prepare>
  void ExpectDifferent(const std::vector<std::pair<Step, SharedTensor>>& inputs,
                       const Prepare& prepare) {
    std::set<std::vector<float>> found;
    for (const auto& [step, input] : inputs) {
      prepare(step);
      const std::vector<float> row = HeldRows(stream(), kPatience).Row(input, 0);
      found.emplace(row.begin(), row.begin() + 2);
    }
    EXPECT_EQ(found.size(), inputs.size());
  }
};

}  // namespace overlapbench
