// The main function of tests that run on several ranks, started by mpirun.
//
// Every rank runs the same tests in the same order. A rank that fails ends all of them, since ranks
// that have gone different ways would only wait for each other.
#include <gtest/gtest.h>

#include "test_ranks.h"

namespace overlapbench {

Ranks& TestRanks() {
  static Ranks ranks(kRanksPatience);
  return ranks;
}

}  // namespace overlapbench

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  overlapbench::Ranks& ranks = overlapbench::TestRanks();
  const int status = RUN_ALL_TESTS();
  if (status != 0) ranks.Abort(status);
  return 0;
}
