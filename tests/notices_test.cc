// What ranks tell each other by notices, and how long sending and looking for them takes.
#include "ranks/notices.h"

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "test_ranks.h"

namespace overlapbench {
namespace {

using std::chrono_literals::operator""ms;
using Clock = std::chrono::steady_clock;

// What MPI has been asked for, and how it is to behave.
struct FakeMpi {
  int probes = 0;
  int tests_of_sent = 0;
  std::optional<int> sent;  // what a test of them returns without a look; none is done then
};
FakeMpi& Mpi() {
  static FakeMpi mpi;
  return mpi;
}

// When this rank's clock stands still.
std::optional<Clock::time_point>& StandsAt() {
  static std::optional<Clock::time_point> stands_at;
  return stands_at;
}

}  // namespace

// MPI's interface for profilers: these take the place of its own functions.
extern "C" {
int MPI_Testall(int count, MPI_Request* requests, int* flag, MPI_Status* statuses) {
  ++Mpi().tests_of_sent;
  const std::optional<int> returned = Mpi().sent;
  if (!returned) return PMPI_Testall(count, requests, flag, statuses);
  *flag = 0;
  return *returned;
}
int MPI_Improbe(int source, int tag, MPI_Comm comm, int* flag, MPI_Message* message,
                MPI_Status* status) {
  ++Mpi().probes;
  return PMPI_Improbe(source, tag, comm, flag, message, status);
}
}

// The linker puts it in the place of the steady clock's.
Clock::time_point RealNow() asm("__real__ZNSt6chrono3_V212steady_clock3nowEv");
Clock::time_point FakeNow() asm("__wrap__ZNSt6chrono3_V212steady_clock3nowEv");
Clock::time_point FakeNow() { return StandsAt().value_or(RealNow()); }

namespace {

class NoticesTest : public RanksTest {
 protected:
  void SetUp() override { PMPI_Comm_dup(MPI_COMM_WORLD, &comm_); }
  void TearDown() override { PMPI_Comm_free(&comm_); }
  // Calls `look` until `condition` is met, or for far longer than a message takes.
  static bool Until(const std::function<bool()>& condition, const std::function<void()>& look) {
    const auto deadline = Clock::now() + kRanksPatience;
    for (; !condition(); std::this_thread::yield()) {
      if (Clock::now() > deadline) return false;
      look();
    }
    return true;
  }

  MPI_Comm comm_ = MPI_COMM_NULL;
};

// The last rank sends, and the others receive.
TEST_F(NoticesTest, AreKeptAsTheirKindSays) {
  if (size() == 1) GTEST_SKIP() << "needs two ranks";
  Notices notices(comm_);
  const auto receive = [&] { notices.Receive(); };
  const auto are_silent = [&](std::int64_t number) { return !notices.Silent(number).empty(); };
  const auto next_part = [&] { TestRanks().Barrier("the next part"); };
  std::vector<int> others;
  for (int other = 0; other < size() - 1; ++other) others.push_back(other);
  EXPECT_EQ(notices.failed_step(), -1);
  if (is_last()) {
    notices.Ask(3);
    notices.SendFailure(8);
    EXPECT_TRUE(Until([&] { return !are_silent(3); }, receive));
    EXPECT_EQ(notices.Silent(4), others) << "another question";
    next_part();
    EXPECT_EQ(notices.Silent(Notices::kRollCall), others);
    notices.Ask(Notices::kRollCall);
    EXPECT_TRUE(Until([&] { return !are_silent(Notices::kRollCall); }, receive));
    notices.SendFailure(5);
    notices.SendEnding("the first reason");
    next_part();
    notices.SendEnding("another");
    notices.SendFailure(9);
    EXPECT_FALSE(notices.Receive()) << "its own end is no news";
    EXPECT_EQ(notices.ending(), "");
  } else {
    EXPECT_TRUE(Until([&] { return notices.failed_step() == 8; }, receive));
    notices.AnswerQuestions();
    next_part();
    EXPECT_TRUE(Until([&] { return notices.Receive(); }, [] {})) << "it answers the roll call";
    EXPECT_EQ(notices.failed_step(), 8) << "the latest step";
    next_part();
    EXPECT_TRUE(Until([&] { return notices.failed_step() == 9; }, receive));
    EXPECT_EQ(notices.ending(), "the first reason");
  }
  next_part();
}

// To no others, whose messages would be under way.
TEST_F(NoticesTest, SendingWaitsForWhatIsUnderWayOnly) {
  Notices notices(MPI_COMM_SELF);
  const auto tests = [&](std::optional<int> sent) {
    Mpi().sent = sent;
    Mpi().tests_of_sent = 0;
    notices.Ask(1);
    Mpi().sent.reset();
    return Mpi().tests_of_sent;
  };
  EXPECT_EQ(tests(std::nullopt), 1);
  EXPECT_EQ(tests(std::nullopt), 2) << "the earlier one is forgotten";
  EXPECT_EQ(tests(MPI_ERR_OTHER), 2) << "there is nobody to tell";
  const auto start = Clock::now();
  EXPECT_GT(tests(MPI_SUCCESS), 2) << "it is under way";
  EXPECT_GE(Clock::now() - start, 100ms);
  EXPECT_LT(Clock::now() - start, kRanksPatience);
}

TEST_F(NoticesTest, AreLookedForOnceInAMillisecond) {
  Notices notices(MPI_COMM_SELF);
  const auto now = Clock::now();
  StandsAt() = now;
  Mpi().probes = 0;
  const auto probes = [&] {
    notices.Receive();
    return Mpi().probes;
  };
  EXPECT_EQ(probes(), 1);
  EXPECT_EQ(probes(), 1);
  StandsAt() = now + std::chrono::microseconds(999);
  EXPECT_EQ(probes(), 1);
  StandsAt() = now + std::chrono::microseconds(1000);
  EXPECT_EQ(probes(), 2);
  StandsAt().reset();
}

}  // namespace
}  // namespace overlapbench
