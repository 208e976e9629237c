// What the ranks learn, in each kind of wait, about a rank that ends the job. They can agree on
// nothing after that, so these tests have their own program and go on without the suite's calls.
#include <gtest/gtest.h>

#include <functional>
#include <thread>

#include "test_ranks.h"

namespace overlapbench {
namespace {

using std::chrono_literals::operator""ms;
using std::chrono_literals::operator""s;

struct Heard {
  std::string text;
  bool printed = false;
  std::chrono::steady_clock::duration after{};
};

// What `wait` throws, and when.
Heard Hear(const std::function<void()>& wait) {
  const auto start = std::chrono::steady_clock::now();
  try {
    wait();
  } catch (const FatalError& error) {
    return {error.what(), error.audience() == FatalError::kPrinted,
            std::chrono::steady_clock::now() - start};
  }
  return {};
}

void ExpectTheReason(const Heard& heard) {
  EXPECT_EQ(heard.text, "the disk is full [rank of the test]");
  EXPECT_TRUE(heard.printed) << "it would be printed again";
  EXPECT_LT(heard.after, 2s);
}

// Calls `look` until it throws, or for far longer than the reason takes to arrive.
void Poll(const std::function<void()>& look) {
  const auto deadline = std::chrono::steady_clock::now() + 5s;
  while (std::chrono::steady_clock::now() < deadline) look();
}

// What another rank has said at its end, within some seconds.
std::string LastWords(const Ranks& ranks) {
  const auto deadline = std::chrono::steady_clock::now() + 5s;
  std::string said;
  while (said.empty() && std::chrono::steady_clock::now() < deadline) said = ranks.LastWords();
  return said;
}

TEST(Ending, IsHeardInEveryKindOfWait) {
  Ranks& ranks = TestRanks();
  if (ranks.size() == 1) GTEST_SKIP() << "needs a second rank";
  ranks.Barrier("the start of the test");
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(ranks.LastWords(), "") << "there are none yet";
  EXPECT_GE(std::chrono::steady_clock::now() - start, 90ms) << "they may be on their way";
  ranks.Barrier("the end of the wait");
  const bool ends = ranks.rank() == ranks.size() - 1;
  if (ends) {
    std::this_thread::sleep_for(100ms);
    ranks.TellOthers("the disk is full [rank of the test]");
    std::this_thread::sleep_for(300ms);  // or the barrier would release them before they look
    ranks.Barrier("what the others are waiting in");
    EXPECT_EQ(ranks.LastWords(), "") << "its own words are no news";
  } else {
    EXPECT_NO_THROW(ranks.CheckLinks());
    EXPECT_EQ(LastWords(ranks), "the disk is full [rank of the test]");
    Heard of_a_thread;
    std::thread stream([&] { of_a_thread = Hear([&] { Poll([&] { ranks.ThrowIfEnding(); }); }); });
    ExpectTheReason(Hear([&] { ranks.Barrier("a rank that has ended"); }));
    stream.join();
    ExpectTheReason(of_a_thread);
    ExpectTheReason(Hear([&] { Poll([&] { ranks.CheckLinks(); }); }));
    ExpectTheReason(Hear([&] { Poll([&] { ranks.ThrowIfOthersFailed(); }); }));
    EXPECT_EQ(ranks.LastWords(), "") << "a wait has thrown them already";
  }
  MPI_Barrier(MPI_COMM_WORLD);
}

}  // namespace
}  // namespace overlapbench
