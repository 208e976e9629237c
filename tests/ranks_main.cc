// The main function of tests that run on several ranks, started by mpirun.
//
// Every rank runs the same tests in the same order. A rank that fails ends all of them, since ranks
// that have gone different ways would only wait for each other.
#include <gtest/gtest.h>

#include "ranks/launcher.h"
#include "test_ranks.h"

namespace overlapbench {

Ranks& TestRanks() {
  const Launched launched = ByLauncher();
  static Progress progress(launched.rank, launched.size);
  static Ranks ranks(kRanksPatience, progress);
  return ranks;
}

}  // namespace overlapbench

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  overlapbench::TestRanks();
  const int status = RUN_ALL_TESTS();
  if (status != 0) MPI_Abort(MPI_COMM_WORLD, status);
  return 0;
}
