// A rank's report of where it is, in every state.
#include "ranks/progress.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "device/error.h"

namespace overlapbench {
namespace {

using std::chrono_literals::operator""ms;

TEST(ProgressTest, OmitsUnsetFields) { EXPECT_EQ(Progress(0, 1).Where(), "between benchmarks"); }

TEST(ProgressTest, NamesRankBenchmarkSampleRunAndPhase) {
  Progress progress(1, 4);
  progress.set_benchmark("Comm/AllReduce");
  progress.BeginSample("comm");
  progress.BeginSample("overlap");
  const Progress::Scope scope(progress, Phase::kWait, "COMM");
  EXPECT_EQ(progress.Where(),
            "rank 1 of 4, Comm/AllReduce, sample 2, run 'overlap', waiting for the stream COMM");
}

TEST(ProgressTest, EachBenchmarkCountsItsOwnSamples) {
  Progress progress(0, 1);
  progress.set_benchmark("Comm/AllReduce");
  progress.BeginSample("comm");
  progress.set_benchmark("Comm/AllGather");
  EXPECT_EQ(progress.Where(), "Comm/AllGather, between benchmarks");
}

TEST(ProgressTest, TheOuterPhaseResumesAfterTheInner) {
  Progress progress(0, 1);
  const Progress::Scope outer(progress, Phase::kMake);
  {
    const Progress::Scope inner(progress, Phase::kWait, "COMP");
  }
  EXPECT_EQ(progress.Where(), "making workloads");
}

TEST(ProgressTest, AfterAnErrorThePhaseStays) {
  Progress progress(0, 1);
  try {
    const Progress::Scope outer(progress, Phase::kMake);
    const Progress::Scope inner(progress, Phase::kWait, "COMP");
    throw Error("no memory");
  } catch (const Error&) {
    EXPECT_EQ(progress.Where(), "waiting for the stream COMP");
  }
}

TEST(ProgressTest, UnchangedCountsFromTheLastPhase) {
  Progress progress(0, 1);
  std::this_thread::sleep_for(30ms);
  EXPECT_GE(progress.Unchanged(), 30ms);
  const auto before = progress.Unchanged();
  const Progress::Scope scope(progress, Phase::kWait);
  EXPECT_LT(progress.Unchanged(), before);
}

TEST(ProgressTest, AnObserverIsCalledBeforeThePhasesWork) {
  Progress progress(0, 1);
  std::vector<Phase> heard;
  progress.Observe([&](Phase phase) { heard.push_back(phase); });
  const Progress::Scope scope(progress, Phase::kVerify);
  EXPECT_EQ(heard, std::vector{Phase::kVerify});
}

}  // namespace
}  // namespace overlapbench
