// What a wait says of the ranks that do not come, and what the roll call does.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <thread>
#include <vector>

#include "test_ranks.h"
#include "thrown.h"

namespace overlapbench {
namespace {

using std::chrono_literals::operator""ms;

std::string Number(int value) { return std::to_string(value); }

// The missing ranks come long after the others have given up. Returns the others' message about
// them.
std::string SaidOfMissing(const std::vector<int>& missing) {
  constexpr auto kTimeout = 1000ms;
  std::string said;
  if (std::ranges::count(missing, TestRanks().rank()) > 0) {
    std::this_thread::sleep_for(3 * kTimeout);
    TestRanks().Barrier("waiting for Godot");
  } else {
    TestRanks().set_timeout(kTimeout);
    said = Thrown<FatalError>([] { TestRanks().Barrier("waiting for Godot"); });
    TestRanks().set_timeout(kRanksPatience);
  }
  TestRanks().Barrier("meeting again");
  return said;
}

TEST_F(RanksTest, WaitingForAMissingRankNamesIt) {
  if (size() == 1) GTEST_SKIP() << "needs two ranks";
  for (int missing = 0; missing < size(); ++missing) {
    const std::string said = SaidOfMissing({missing});
    if (rank() == missing) continue;
    EXPECT_EQ(said, "rank " + Number(rank()) + ": waiting for Godot: rank " + Number(missing) +
                        " did not arrive within 1 s; it has stopped or is doing something else");
  }
}

// First the last rank does not look, then all others are waiting.
TEST_F(RanksTest, TheRollCallNamesTheRanksThatDoNotAnswer) {
  if (size() == 1) {
    EXPECT_EQ(ranks().RollCall(), "");
    return;
  }
  const std::string missing = "; rank " + Number(size() - 1) + " did not answer within 0.3 s";
  if (is_last()) {
    std::this_thread::sleep_for(900ms);
  } else {
    EXPECT_EQ(ranks().RollCall(), rank() == 0 ? missing : "");
  }
  ranks().Barrier("meeting again");
  EXPECT_EQ(rank() > 0 ? "; all ranks answered" : ranks().RollCall(), "; all ranks answered");
  ranks().Barrier("being called");
}

// Replies in the previous test's waits must not count here.
TEST_F(RanksTest, WaitingForSeveralMissingRanksNamesAll) {
  if (size() < 3) GTEST_SKIP() << "needs three ranks";
  for (int present = 0; present < size(); ++present) {
    std::vector<int> missing;
    for (int other = 0; other < size(); ++other) {
      if (other != present) missing.push_back(other);
    }
    const std::string said = SaidOfMissing(missing);
    if (rank() != present) continue;
    EXPECT_EQ(said, "rank " + Number(rank()) + ": waiting for Godot: ranks " + Number(missing[0]) +
                        ", " + Number(missing[1]) +
                        " did not arrive within 1 s; they have stopped or are doing something "
                        "else");
  }
}

// It asked whether the others were there, but answers nobody.
TEST_F(RanksTest, ARankThatHasGivenUpIsNamedWithTheMissingOne) {
  if (size() < 3) GTEST_SKIP() << "needs three ranks";
  constexpr auto kTimeout = 2000ms;
  ranks().Barrier("the test");
  if (is_last()) {
    std::this_thread::sleep_for(kTimeout * 3 / 2);
    ranks().Barrier("waiting for Godot");
  } else {
    const ShortTimeout timeout(rank() == 0 ? kTimeout : kTimeout / 10);
    const std::string said = Thrown<FatalError>([&] { ranks().Barrier("waiting for Godot"); });
    EXPECT_EQ(said, rank() > 0 ? said
                               : "rank 0: waiting for Godot: ranks 1, 2 did not arrive within 2 s; "
                                 "they have stopped or are doing something else");
    if (rank() > 0) std::this_thread::sleep_for(kTimeout * 5 / 4);
  }
  ranks().Barrier("meeting again");
}

// The last rank is slow, but it comes: nothing of the query is left for later waits.
TEST_F(RanksTest, ARankThatIsWaitedForLongIsNotMissing) {
  if (size() == 1) GTEST_SKIP() << "needs two ranks";
  constexpr auto kTimeout = 3000ms;
  ranks().set_timeout(kTimeout);
  if (is_last()) std::this_thread::sleep_for(kTimeout * 7 / 10);
  EXPECT_NO_THROW(ranks().Barrier("waiting for long"));
  ranks().set_timeout(kRanksPatience);
  EXPECT_NO_THROW(ranks().AgreeOnError("", "the test"));
}

}  // namespace
}  // namespace overlapbench
