// What a contest measures of each candidate.
#include "fixtures/contest.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "fake_workload.h"

namespace overlapbench {
namespace {

// A candidate's own run is its last; the others are what it is compared with.
TEST(Contest, TakesEachCandidatesOwnRun) {
  const Behaviour behaviour;
  Benchmark benchmark{.name = "Race/Horse", .settings = {}, .runs = {}, .report = {}};
  benchmark.runs = [&](const Settings& settings) {
    std::vector<overlapbench::Run> runs;  // not GoogleTest's
    for (const std::string& name : {std::string("plain"), settings.Text("horse")})
      runs.push_back(SoloRun(FakeWork(name, WorkClass::kCompute, behaviour)));
    return runs;
  };
  for (const char* horse : {"first", "second", "third"})
    benchmark.candidates.push_back(Settings().With("horse", horse));
  const Benchmark contest = ContestOf(benchmark);
  std::vector<std::string> works;
  std::vector<std::string> names;
  for (const auto& run : MakeRuns(contest)) {
    names.push_back(run.name);
    for (const Work& work : run.schedule.works()) works.push_back(work->name);
  }
  EXPECT_EQ(works, (std::vector<std::string>{"first", "second", "third"}));
  EXPECT_EQ(names, (std::vector<std::string>{"0", "1", "2"}));
  EXPECT_EQ(contest.name, "Race/Horse");
  EXPECT_EQ(contest.settings.Text("horse"), "first");
}

}  // namespace
}  // namespace overlapbench
