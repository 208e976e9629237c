// The patterns reported for a row's trace, from given times: each one is reported from its minimum
// share on, and not below.
#include "fixtures/patterns.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace overlapbench {
namespace {

constexpr auto kComp = WorkClass::kCompute;
constexpr auto kComm = WorkClass::kComm;
constexpr auto kMem = WorkClass::kMemory;

LaneWork Kernel(double begin_ms, double end_ms, WorkClass work_class = kComp) {
  return {.work_class = work_class,
          .begin_ms = begin_ms,
          .end_ms = end_ms,
          .stream = 1,
          .is_kernel = true};
}
LaneWork Copy(double begin_ms, double end_ms, std::uint64_t stream) {
  return {.work_class = kMem, .begin_ms = begin_ms, .end_ms = end_ms, .stream = stream};
}
LaneWork Enqueued(LaneWork work, double at_ms) {
  work.enqueued_ms = at_ms;
  return work;
}
std::string Shown(const std::vector<LaneWork>& works) {
  return PatternsOf(BreakdownOf(0, 0, works));
}

TEST(Patterns, NothingIsSaidOfWorkThatFillsTheTime) {
  EXPECT_EQ(PatternsOf({}), "");
  EXPECT_EQ(Shown({Kernel(0, 4), Kernel(0, 4, kComm)}), "");
}

// Two at a time count once; of several samples the sum decides.
TEST(Patterns, ShortKernelsCountFromATenthOfTheTimeOn) {
  const std::string expected =
      "its trace shows many short kernels, 10 % of its time: Fuse them (torch.compile), or launch "
      "the step as one CUDA graph.";
  std::vector<LaneWork> works = {Kernel(0, 0.899)};
  for (int i = 0; i < 20; ++i) {
    const double begin_ms = 0.899 + 0.005 * i;
    works.push_back(Kernel(begin_ms, begin_ms + 0.005));
    works.push_back(Kernel(begin_ms, begin_ms + 0.005, kComm));
  }
  EXPECT_EQ(Shown(works), expected);
  works.push_back(Kernel(0.999, 1.1));
  EXPECT_EQ(Shown(works), "");
  Breakdown sum = BreakdownOf(0, 0, works);
  sum.Add(BreakdownOf(0, 0, {Kernel(0, 0.006), Kernel(0.006, 0.012)}));
  EXPECT_EQ(PatternsOf(sum), expected);
}

TEST(Patterns, CopiesAndLongerKernelsAreNotShortKernels) {
  std::vector<LaneWork> works;
  for (int i = 0; i < 10; ++i) {
    works.push_back(Copy(0.02 * i, 0.02 * i + 0.005, 1));
    works.push_back(Kernel(0.02 * i + 0.005, 0.02 * i + 0.02));
  }
  EXPECT_EQ(Shown(works), "");
  EXPECT_EQ(Shown({Kernel(0, Breakdown::kShort_ms)}), "");
}

TEST(Patterns, GapsByTheHostAreLateLaunchesOrStarvation) {
  const std::string late =
      "its trace shows gaps from late launches, 5 % of its time: Remove synchronizations and "
      "Python between launches, or use a CUDA graph.";
  EXPECT_EQ(Shown({Kernel(0, 4), Enqueued(Kernel(4.4, 8), 4.4)}), late);
  EXPECT_EQ(Shown({Kernel(0, 4.02), Enqueued(Kernel(4.4, 8), 4.4)}), "");
  // As long a gap for which the host is not to blame.
  EXPECT_EQ(Shown({Kernel(0, 4), Kernel(4.4, 8)}), "");
  EXPECT_EQ(
      Shown({Kernel(0, 4), Enqueued(Kernel(4.5, 8), 4.5)}),
      "its trace shows a starving device, 6 % of its time: Prepare input ahead: more workers, "
      "prefetching, a copy of the next batch.");
}

TEST(Patterns, CopiesInTurnHaveAStreamOfTheirOwnAndHideNothing) {
  const std::string in_turn =
      "its trace shows copies and kernels in turn, on different streams, 20 % of its time: Pin the "
      "host's memory, copy asynchronously, and wait later for the copy.";
  EXPECT_EQ(Shown({Copy(0, 2, 2), Kernel(2, 10)}), in_turn);
  EXPECT_NE(Shown({Copy(0, 1, 2), Kernel(1, 20)}), "") << "just 5 % of the time";
  EXPECT_NE(Shown({Copy(0, 8, 2), Kernel(8, 10)}).find(", 80 % of its time"), std::string::npos);
  EXPECT_EQ(Shown({Copy(0, 2, 2), Copy(2, 2, 1), Kernel(2, 10)}), in_turn);
  // Less than a tenth of them is hidden, in however little time.
  EXPECT_NE(Shown({Copy(0, 2, 2), Kernel(1.85, 10)}), "");
  EXPECT_EQ(Shown({Copy(0, 0.25, 2), Kernel(0.125, 1)}), "");
  EXPECT_EQ(Shown({Copy(0, 10, 2), Kernel(9, 20)}), "") << "just a tenth";
  EXPECT_EQ(Shown({Copy(0, 2, 1), Kernel(2, 10)}), "") << "one stream: they must be in turn";
  EXPECT_EQ(Shown({Copy(0, 2, 2), Copy(2, 4, 2)}), "") << "nothing to hide behind";
  EXPECT_EQ(Shown({Copy(0, 2.5, 2), Kernel(2, 10)}), "") << "a fifth of them is hidden";
}

TEST(Patterns, SeveralAreNamedInOneRemark) {
  const std::string shown = Shown({Copy(0, 2, 2), Enqueued(Kernel(3, 10), 3)});
  EXPECT_TRUE(shown.starts_with("its trace shows copies and kernels in turn")) << shown;
  EXPECT_NE(shown.find(". Also a starving device, 10 % of its time: "), std::string::npos) << shown;
}

}  // namespace
}  // namespace overlapbench
