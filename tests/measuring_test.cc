// Suites as a process makes them, one after the other: what their flags decide, what is left of one
// that has ended, and how an error ends them all.
#include "interface/measuring.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <functional>
#include <iterator>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "answers.h"
#include "json.h"
#include "test_ranks.h"
#include "thrown.h"

namespace overlapbench {
namespace {

struct FakeMpi {
  std::function<bool()> has_no_barriers = [] { return false; };
  int maxima = 0;  // that it was asked for
};
FakeMpi& Mpi() {
  static FakeMpi mpi;
  return mpi;
}

}  // namespace

// MPI's interface for profilers: these take the place of its own functions.
extern "C" {
int MPI_Ibarrier(MPI_Comm comm, MPI_Request* request) {
  return Mpi().has_no_barriers() ? MPI_ERR_OTHER : PMPI_Ibarrier(comm, request);
}
int MPI_Iallreduce(const void* sendbuf, void* recvbuf, int count, MPI_Datatype datatype, MPI_Op op,
                   MPI_Comm comm, MPI_Request* request) {
  if (op == MPI_MAX) ++Mpi().maxima;
  return PMPI_Iallreduce(sendbuf, recvbuf, count, datatype, op, comm, request);
}
}

namespace {

class MeasuringTest : public testing::Test {
 protected:
  Callable Work(const std::string& name, WorkClass work_class) {
    return {.name = name,
            .work_class = work_class,
            .callbacks = {Call, nullptr, nullptr},
            .context = &works_};
  }
  UserRow Alone() {
    UserRow row;
    row.kind = OVERLAPBENCH_ALONE;
    row.name = "mine";
    row.works = {Work("own", WorkClass::kCompute)};
    row.axes = {{"cache", "warm"}};
    return row;
  }

  const std::vector<std::string> flags_ = {"--backend=host", "--no-self-test", "--budget_ms=20",
                                           "--warmup_ms=1"};
  Answering works_ = Sleeping(std::chrono::microseconds(300));
};

TEST_F(MeasuringTest, LaterFlagsReplaceThoseOfTheStart) {
  std::vector<std::string> flags = flags_;
  flags.emplace_back("--timeout_s=30");
  Measuring measuring(flags);
  EXPECT_EQ(measuring.ranks().timeout(), std::chrono::seconds(30));
  measuring.Configure({"--timeout_s=9"});
  EXPECT_EQ(measuring.ranks().timeout(), std::chrono::seconds(9));
  measuring.Configure({});
  EXPECT_EQ(measuring.ranks().timeout(), std::chrono::seconds(30));
}

long Threads() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/task"),
                       std::filesystem::directory_iterator());
}

// A device of three cores has threads of its own. The second row's work ends after the timeout.
TEST_F(MeasuringTest, LeavesNothingBehind) {
  const long before = Threads();
  {
    std::vector<std::string> flags = flags_;
    flags.emplace_back("--host_cores=3");
    Measuring measuring(flags);
    measuring.Measure(Alone());
    EXPECT_EQ(Counted<Stream>::Live(), 0) << "the row's are gone";
    EXPECT_GE(Threads(), before + 2);
    if (TestRanks().size() == 1) {
      works_ = Sleeping(std::chrono::milliseconds(1100));
      measuring.Configure({"--timeout_s=1"});
      measuring.Measure(Alone());
      EXPECT_EQ(Counted<Stream>::Live(), 0) << "it was waited for";
    }
  }
  // A thread may be listed for a moment after its end.
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(5);
  while (Threads() > before && std::chrono::steady_clock::now() < deadline)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_EQ(Threads(), before);
}

TEST_F(MeasuringTest, TestsItselfAndWritesSchedulesIfAsked) {
  if (TestRanks().size() > 1) GTEST_SKIP() << kOneIsEnough;
  Mpi().maxima = 0;
  {
    const Measuring measuring(flags_);
  }
  const int without = std::exchange(Mpi().maxima, 0);
  Measuring measuring({"--backend=host", "--predictable", "--budget_ms=20", "--warmup_ms=1"});
  EXPECT_GT(Mpi().maxima, without + 40) << "the samples of its self-test; without: " << without;
  UserRow row = Alone();
  row.kind = OVERLAPBENCH_SCHEDULE;
  row.works.push_back(Work("load", WorkClass::kComm));
  row.steps = {{"a", "first", 1, {}}, {"b", "second", 0, {0}}, {"a", "third", 1, {}}};
  row.nothing = Work("nothing", WorkClass::kCompute);
  const Json document = JsonReader::Read(measuring.Measure(row));
  EXPECT_EQ(document.At("context").At("executable").text, "overlapbench");
  const Json& runs = document.At("benchmarks").items.at(0).At("schedules").At("runs");
  std::string said;  // the lane and the work of each step, and how many it waits for
  for (const Json& run : runs.items) {
    said += run.At("name").text + ":";
    for (const Json& step : run.At("steps").items) {
      const auto lane = static_cast<std::size_t>(step.items.at(1).number);
      said += fmt::format(" {}-{}-{}", run.At("lanes").items.at(lane).At("name").text,
                          step.items.at(0).number, step.items.at(4).items.size());
    }
    said += "\n";
  }
  EXPECT_EQ(said,
            "load, empty: a-0-0 a-0-0\n"
            "load: a-1-0 a-1-0\n"
            "own, empty: b-2-0\n"
            "own: b-3-0\n"
            "sequential: sequence-1-0 sequence-3-0 sequence-1-0\n"
            "computation: b-3-0\n"
            "load beside own: a-1-0 a-1-0 b-3-0\n"
            "pattern: a-1-0 b-3-1 a-1-0\n")
      << "only works alone are compared with their empty forms";
}

// As long as it hangs, its session and what that uses stay.
TEST_F(MeasuringTest, IsDestroyedWhileAWorkHangs) {
  if (TestRanks().size() > 1) GTEST_SKIP() << kOneIsEnough;
  std::atomic<int> inside = 0;
  std::atomic<bool> may_return = false;
  works_ = [&](overlapbench_answer&) {
    ++inside;
    while (!may_return) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    --inside;
    return 0;
  };
  {
    Measuring measuring(flags_);
    measuring.Configure({"--timeout_s=1"});
    const Json document = JsonReader::Read(measuring.Measure(Alone()));
    EXPECT_EQ(document.At("benchmarks").items.at(0).At("state").text, "error");
    EXPECT_EQ(measuring.ended(), "") << "the next row could be measured";
  }
  EXPECT_EQ(inside, 1) << "it has not been waited for";
  may_return = true;
  while (inside > 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

// Rank 1 fails behind a row, and the others would wait for it.
TEST_F(MeasuringTest, AnErrorBetweenRowsEndsItOnAllRanks) {
  const int failing = TestRanks().size() - 1;
  const std::string ending =
      "an earlier row ended the measuring: MPI_Ibarrier(control_, &request) failed: ";
  {
    Measuring measuring(flags_);
    if (TestRanks().rank() == failing)
      Mpi().has_no_barriers = [&] {
        return measuring.ranks().progress().phase() == Phase::kBetween;
      };
    const std::string said = Thrown<Error>([&] { measuring.Measure(Alone()); });
    Mpi().has_no_barriers = [] { return false; };
    EXPECT_TRUE(TestRanks().rank() != failing || measuring.ended().ends_with(": " + said)) << said;
    EXPECT_EQ(measuring.ended().find(ending), 0U) << measuring.ended();
    EXPECT_EQ(Thrown<Error>([&] { measuring.Measure(Alone()); }), measuring.ended());
  }
  TestRanks().Barrier("the next suite");
  const Json next = JsonReader::Read(Measuring(flags_).Measure(Alone()));
  EXPECT_EQ(next.At("benchmarks").items.size(), 1U) << "nothing is left of that row";
  TestRanks().Barrier("ending the test");
}

}  // namespace
}  // namespace overlapbench
