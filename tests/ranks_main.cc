// The main function of tests that run on several ranks, started by mpirun.
//
// Every rank runs the same tests in the same order. A rank that fails ends all of them, since ranks
// that diverged would only wait for each other. The rank, the phase and the time follow a failure,
// and distinguish a wait that ran into its timeout from a wrong value:
//
//   rank 1 of 2, Backends/SamplerTest.X/cuda, sample 1, run 'run', meeting the other ranks:
//   a failure 20013 ms after the test began
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <optional>

#include "ranks/ranks.h"
#include "test_ranks.h"

namespace overlapbench {
namespace {

class PlaceOfFailures : public testing::EmptyTestEventListener {
 private:
  void OnTestStart(const testing::TestInfo& test) override {
    // The test before may have left its phase by an exception.
    phase_.emplace(TestRanks().progress(), Phase::kBetween);
    TestRanks().progress().set_benchmark(fmt::format("{}.{}", test.test_suite_name(), test.name()));
    started_ = std::chrono::steady_clock::now();
  }
  void OnTestEnd(const testing::TestInfo& /*test*/) override { phase_.reset(); }
  void OnTestPartResult(const testing::TestPartResult& result) override {
    if (!result.failed()) return;
    const auto since = std::chrono::duration_cast<std::chrono::milliseconds>(
        std::chrono::steady_clock::now() - started_);
    fmt::print(stderr, "{}: a failure {} ms after the test began\n", TestRanks().progress().Where(),
               since.count());
  }

  std::optional<Progress::Scope> phase_;
  std::chrono::steady_clock::time_point started_;
};

}  // namespace

Ranks& TestRanks() {
  const RankPlace place = ByLauncher();
  static Progress progress(place.rank, place.size);
  static Ranks ranks(kRanksPatience, progress);
  return ranks;
}

}  // namespace overlapbench

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  overlapbench::TestRanks();
  testing::UnitTest::GetInstance()->listeners().Append(new overlapbench::PlaceOfFailures);
  const int status = RUN_ALL_TESTS();
  if (status != 0) MPI_Abort(MPI_COMM_WORLD, status);
  return 0;
}
