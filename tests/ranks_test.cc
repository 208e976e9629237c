// What ranks agree on and send each other, on one rank, on two and on three; and that a rank that
// does not come is noticed.
#include "ranks/ranks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <optional>
#include <thread>

#include "comm/communicator.h"
#include "device/host/host_load.h"
#include "ranks/notices.h"
#include "test_ranks.h"
#include "thrown.h"

namespace overlapbench {
namespace {

using std::chrono_literals::operator""ms;
using Clock = std::chrono::steady_clock;

// What MPI has been asked for, and how it is to behave.
struct FakeMpi {
  int communicators = 0;  // that exist beyond its own
  int returning = 0;      // communicators whose errors are returned, MPI_COMM_WORLD among them
  int most_threads = MPI_THREAD_MULTIPLE;
  bool has_two_machines = false;  // rank 0, and all others
  bool operations_end = true;
  int probes = 0;
  int tests_of_sent = 0;
  std::optional<int> sent;  // what a test of them returns without a look; none is done then
};
FakeMpi& Mpi() {
  static FakeMpi mpi;
  return mpi;
}

// The clock of this rank's machine.
struct FakeClock {
  std::optional<Clock::time_point> stands_at;
  Clock::duration ahead{};
};
FakeClock& OwnClock() {
  static FakeClock clock;
  return clock;
}

// The limit of this machine's CPU time, in cores.
std::optional<double>& Quota() {
  static std::optional<double> quota;
  return quota;
}

}  // namespace

// MPI's interface for profilers: these take the place of its own functions.
extern "C" {
int MPI_Comm_dup(MPI_Comm comm, MPI_Comm* newcomm) {
  ++Mpi().communicators;
  return PMPI_Comm_dup(comm, newcomm);
}
int MPI_Comm_split(MPI_Comm comm, int color, int key, MPI_Comm* newcomm) {
  const int code = PMPI_Comm_split(comm, color, key, newcomm);
  if (*newcomm != MPI_COMM_NULL) ++Mpi().communicators;
  return code;
}
int MPI_Comm_split_type(MPI_Comm comm, int split_type, int key, MPI_Info info, MPI_Comm* newcomm) {
  ++Mpi().communicators;
  if (Mpi().has_two_machines)
    return PMPI_Comm_split(comm, ByLauncher().rank == 0 ? 0 : 1, key, newcomm);
  return PMPI_Comm_split_type(comm, split_type, key, info, newcomm);
}
int MPI_Comm_set_errhandler(MPI_Comm comm, MPI_Errhandler handler) {
  if (handler == MPI_ERRORS_RETURN) ++Mpi().returning;
  return PMPI_Comm_set_errhandler(comm, handler);
}
int MPI_Test(MPI_Request* request, int* flag, MPI_Status* status) {
  if (Mpi().operations_end) return PMPI_Test(request, flag, status);
  *flag = 0;
  return MPI_SUCCESS;
}
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
int MPI_Comm_free(MPI_Comm* comm) {
  --Mpi().communicators;
  return PMPI_Comm_free(comm);
}
int MPI_Query_thread(int* provided) {
  const int code = PMPI_Query_thread(provided);
  *provided = std::min(*provided, Mpi().most_threads);
  return code;
}
}

// The linker puts these in the place of the suite's, and of the steady clock's.
Clock::time_point RealNow() asm("__real__ZNSt6chrono3_V212steady_clock3nowEv");
Clock::time_point FakeNow() asm("__wrap__ZNSt6chrono3_V212steady_clock3nowEv");
Clock::time_point FakeNow() { return OwnClock().stands_at.value_or(RealNow() + OwnClock().ahead); }
std::optional<double> FakeQuota(const std::filesystem::path& root) asm(
    "__wrap__ZN12overlapbench9CoreQuotaERKNSt10filesystem7__cxx114pathE");
std::optional<double> FakeQuota(const std::filesystem::path& /*root*/) { return Quota(); }

namespace {

using std::chrono_literals::operator""s;

std::string Number(int value) { return std::to_string(value); }

class RanksTest : public testing::Test {
 protected:
  Ranks& ranks() { return TestRanks(); }
  int rank() { return ranks().rank(); }
  int size() { return ranks().size(); }
  bool is_last() { return rank() == size() - 1; }
};

TEST_F(RanksTest, KnowTheirRankAndSize) {
  EXPECT_GE(rank(), 0);
  EXPECT_LT(rank(), size());
  EXPECT_EQ(ranks().is_root(), rank() == 0);
  EXPECT_EQ(ranks().local_rank(), rank());  // the tests run on one machine
  EXPECT_EQ(ranks().local_size(), size());
  EXPECT_EQ(ranks().Prefix(), size() == 1 ? "" : "rank " + Number(rank()) + ": ");
}

// Another suite in the same process, as of a program that measures twice.
TEST_F(RanksTest, LeaveNoCommunicatorBehind) {
  const int before = Mpi().communicators;
  {
    Progress progress(rank(), size());
    const int returning = Mpi().returning;
    Ranks others(kRanksPatience, progress);
    EXPECT_EQ(Mpi().communicators, before + 4) << "the ranks' own, and those of the traffic";
    EXPECT_EQ(Mpi().returning, returning + 5) << "or an error would end the process";
    EXPECT_EQ(others.size(), size());
    others.Barrier("the test");
  }
  EXPECT_EQ(Mpi().communicators, before);
  int ended = 0;
  MPI_Finalized(&ended);
  EXPECT_EQ(ended, 0) << "others have started it";
}

TEST_F(RanksTest, NeedAnMpiOfSeveralThreads) {
  Mpi().most_threads = MPI_THREAD_SERIALIZED;
  Progress progress(rank(), size());
  EXPECT_EQ(Thrown<Error>([&] { Ranks(kRanksPatience, progress); }),
            "MPI was already initialized without MPI_THREAD_MULTIPLE");
  Mpi().most_threads = MPI_THREAD_MULTIPLE;
}

TEST_F(RanksTest, NameTheirMpi) {
  const std::string version = Ranks::LibraryVersion();
  EXPECT_GT(version.size(), 5U);
  EXPECT_EQ(version.find(','), std::string::npos) << version;
}

TEST_F(RanksTest, BarrierWaitsForTheLast) {
  const auto start = std::chrono::steady_clock::now();
  if (is_last()) std::this_thread::sleep_for(50ms);
  ranks().Barrier("the test");
  EXPECT_GE(std::chrono::steady_clock::now() - start, 45ms);
}

TEST_F(RanksTest, MaxIsElementwise) {
  std::array values = {static_cast<double>(rank()), static_cast<double>(-rank()), 7.25, -1e-300};
  ranks().Max(values, "the test");
  EXPECT_EQ(values, (std::array{size() - 1.0, 0.0, 7.25, -1e-300}));
}

// Google Benchmark decides by these numbers: if they differ in one bit, ranks would diverge.
TEST_F(RanksTest, MaxHasTheSameBitsEverywhere) {
  for (int i = 0; i < 100; ++i) {
    double value = std::sin(1000 * rank() + i) / 3;
    ranks().Max({&value, 1}, "the test");
    double highest = value;
    double lowest = -value;
    ranks().Max({&highest, 1}, "the test");
    ranks().Max({&lowest, 1}, "the test");
    EXPECT_EQ(highest, -lowest);
    EXPECT_EQ(highest, value);
  }
}

TEST_F(RanksTest, GatherHasEveryTextInOrder) {
  const auto texts = ranks().Gather("from " + Number(rank()), "the test");
  ASSERT_EQ(static_cast<int>(texts.size()), size());
  for (int i = 0; i < size(); ++i) EXPECT_EQ(texts[i], "from " + Number(i));
}

TEST_F(RanksTest, GatherTruncatesLongTextsAndKeepsEmptyOnes) {
  const auto texts = ranks().Gather(rank() == 0 ? std::string(10'000, 'x') : "", "the test");
  EXPECT_EQ(texts[0], std::string(Ranks::kTextBytes - 1, 'x'));
  for (int i = 1; i < size(); ++i) EXPECT_EQ(texts[i], "");
}

TEST_F(RanksTest, BroadcastCopiesTheRootsBytes) {
  std::array<std::byte, 64> bytes{};
  bytes.fill(std::byte(rank() + 1));
  ranks().Broadcast(bytes, "the test");
  for (const auto byte : bytes) EXPECT_EQ(byte, std::byte{1});
}

// A cut character would make the result file invalid.
TEST_F(RanksTest, LongTextsAreCutBetweenCharacters) {
  for (std::size_t before = 0; before < 4; ++before) {
    std::string text(before, 'x');
    while (text.size() <= Ranks::kTextBytes) text += "\xe2\x82\xac";  // the sign of the euro
    const std::string cut = ranks().Gather(text, "gather")[0];
    EXPECT_EQ(cut, text.substr(0, cut.size()));
    EXPECT_EQ((cut.size() - before) % 3, 0U);
    EXPECT_GT(cut.size(), Ranks::kTextBytes - 4);
  }
}

TEST_F(RanksTest, KnowsWhetherATextIsTheSameOnAll) {
  EXPECT_TRUE(ranks().IsSameOnAll("a text", "the test"));
  EXPECT_EQ(ranks().IsSameOnAll(is_last() ? "another" : "a text", "the test"), ranks().size() == 1);
}

TEST_F(RanksTest, GatherIfAnyHasNoTextsOrAll) {
  EXPECT_TRUE(ranks().GatherIfAny("", "the test").empty());
  const auto texts = ranks().GatherIfAny(is_last() ? "mine" : "", "the test");
  ASSERT_EQ(static_cast<int>(texts.size()), size());
  for (int i = 0; i < size(); ++i) EXPECT_EQ(texts[i], i == size() - 1 ? "mine" : "");
}

TEST_F(RanksTest, AgreeingOnNoErrorDoesNotThrow) {
  EXPECT_NO_THROW(ranks().AgreeOnError("", "the test"));
}

TEST_F(RanksTest, OneRanksErrorIsThrownOnAllAndNamesTheRank) {
  const std::string mine = is_last() ? "out of memory" : "";
  EXPECT_EQ(Thrown<Error>([&] { ranks().AgreeOnError(mine, "the test"); }),
            size() == 1 ? "out of memory" : "rank " + Number(size() - 1) + ": out of memory");
}

TEST_F(RanksTest, AnErrorOfAllRanksNamesNoRank) {
  EXPECT_EQ(Thrown<Error>([&] { ranks().AgreeOnError("out of memory", "the test"); }),
            "out of memory");
}

TEST_F(RanksTest, DifferentErrorsAreCombinedOnAllRanks) {
  std::string expected = "error 0";
  if (size() > 1) expected = "rank 0: error 0";
  for (int i = 1; i < size(); ++i) expected += "; rank " + Number(i) + ": error " + Number(i);
  EXPECT_EQ(Thrown<Error>([&] { ranks().AgreeOnError("error " + Number(rank()), "the test"); }),
            expected);
}

// mpirun gives the ranks of a test the same cores.
TEST_F(RanksTest, ShareTheCoresOfTheirMachine) {
  const auto allowed = static_cast<double>(AllowedCores().size());
  EXPECT_NEAR(ranks().cores(), allowed / size(), 1e-9);
  Progress progress(rank(), size());
  for (const double quota : {allowed / 4, allowed + 1}) {
    Quota() = quota;
    EXPECT_NEAR(Ranks(kRanksPatience, progress).cores(), std::min(allowed, quota) / size(), 1e-9);
  }
  Quota().reset();
}

TEST(CombineErrors, NamesTheRanksOfEachDistinctError) {
  EXPECT_EQ(CombineErrors({"a", "a", "a"}), "a");
  EXPECT_EQ(CombineErrors({"", "a"}), "rank 1: a");
  EXPECT_EQ(CombineErrors({"", "a", "b"}), "rank 1: a; rank 2: b");
  EXPECT_EQ(CombineErrors({"c", "", "c"}), "ranks 0, 2: c");
  EXPECT_EQ(CombineErrors({"", "b", "a", "b"}), "ranks 1, 3: b; rank 2: a");
  EXPECT_EQ(CombineErrors({"", "a", "a", "", "a", "a", "a", "", "a"}), "ranks 1, 2, 4-6, 8: a");
}

// In each of these tests one rank fails in a step while the others are in a wait outside MPI. The
// wait has only this deadline, at which the test fails.
void WaitForTheOthersToFail() {
  const auto deadline = std::chrono::steady_clock::now() + 5s;
  while (std::chrono::steady_clock::now() < deadline) TestRanks().ThrowIfOthersFailed();
  throw Error("nobody noticed");
}

TEST_F(RanksTest, AStepThatSucceedsDoesNotThrow) {
  int done = 0;
  EXPECT_NO_THROW(ranks().Together("the test", [&] { ++done; }));
  EXPECT_EQ(done, 1);
}

TEST_F(RanksTest, AFailedStepIsNoticedInAWaitOutsideMpiByAllOtherRanks) {
  for (int failing = 0; failing < size(); ++failing) {
    const auto start = std::chrono::steady_clock::now();
    const auto step = [&] {
      if (rank() == failing) throw Error("no such link");
      WaitForTheOthersToFail();
    };
    EXPECT_EQ(Thrown<AgreedError>([&] { ranks().Together("the test", step); }),
              (size() == 1 ? "" : "rank " + Number(failing) + ": ") + "no such link");
    EXPECT_LT(std::chrono::steady_clock::now() - start, kRanksPatience / 2);
  }
}

// A rank that fails early meets the others in whatever they agree on next.
TEST_F(RanksTest, AFailedStepIsNoticedInAnAgreementInsideIt) {
  for (const bool early : {true, false}) {
    const auto step = [&] {
      if (is_last() && early) throw Error("no such link");
      ranks().AgreeOnError("", "something in the step");
      if (is_last()) throw Error("no such link");
      WaitForTheOthersToFail();
    };
    EXPECT_EQ(Thrown<AgreedError>([&] { ranks().Together("the test", step); }),
              (size() == 1 ? "" : "rank " + Number(size() - 1) + ": ") + "no such link");
    ranks().Barrier("the same place on all ranks");
  }
}

TEST_F(RanksTest, AFailedStepIsForgottenInTheNext) {
  const auto failing = [&] {
    if (is_last()) throw Error("no such link");
  };
  EXPECT_THROW(ranks().Together("the test", failing), AgreedError);
  bool finished = false;
  const auto next = [&] {
    const auto end = std::chrono::steady_clock::now() + 20ms;
    while (std::chrono::steady_clock::now() < end) ranks().ThrowIfOthersFailed();
    finished = true;
  };
  EXPECT_NO_THROW(ranks().Together("the test", next));
  EXPECT_TRUE(finished);
}

TEST_F(RanksTest, AFatalErrorPassesThroughItsStep) {
  EXPECT_THROW(ranks().Together("the test", [] { throw FatalError("too late"); }), FatalError);
}

// One rank that fails before it must not let the others wait in MPI.
TEST_F(RanksTest, AnMpiCommunicatorIsMadeWithoutTheOthers) {
  if (is_last()) {
    const auto device = OpenHostDevice(1);
    EXPECT_EQ(MakeMpiCommunicator({*device, ranks()})->size(), size());
  }
  ranks().Barrier("the other ranks make none");
}

// MPI would take 2^32 + 1 for one element.
TEST_F(RanksTest, AnMpiCommunicatorRefusesMoreThanMpiCounts) {
  const auto device = OpenHostDevice(1);
  const auto stream = device->CreateStream();
  const auto communicator = MakeMpiCommunicator({*device, ranks()});
  CollectiveCall call{.operation = Operation::kAllReduce, .element = Element::kInt32};
  call.count = (1L << 32) + 1;
  communicator->Enqueue(*stream, call);
  const std::string text = Thrown<Error>([&] { stream->Synchronize(kPatience, "the test"); });
  EXPECT_EQ(text.find("MPI counts at most 2147483647 elements"), 0U) << text;
}

// The operation ends once the last rank arrives. The caller, which has given up, must not notice.
TEST_F(RanksTest, AnOperationThatWasGivenUpDoesNotReachTheCallersMemory) {
  if (size() == 1) GTEST_SKIP() << "needs two ranks";
  constexpr double kOwn = -1;
  std::array<double, 4> numbers{};
  numbers.fill(kOwn);
  if (!is_last()) {
    const ShortTimeout short_timeout(50ms);
    EXPECT_THROW(ranks().Max(numbers, "the test"), FatalError);
    EXPECT_TRUE(ranks().has_given_up());
  } else {
    std::this_thread::sleep_for(500ms);
    std::array<double, 4> late{};
    ranks().Max(late, "the test");
    EXPECT_FALSE(ranks().has_given_up());
  }
  ranks().Barrier("the test");  // MPI completes what came before
  EXPECT_EQ(std::ranges::count(numbers, kOwn), 4);
}

// As after an error of the network.
TEST_F(RanksTest, AnOperationThatDoesNotEndIsBlamedOnNoRankThatIsThere) {
  Progress progress(rank(), size());
  Ranks others(kRanksPatience, progress);
  others.Barrier("the test");
  others.set_timeout(2000ms);
  Mpi().operations_end = false;
  EXPECT_EQ(
      Thrown<FatalError>([&] { others.Barrier("waiting for Godot"); }),
      others.Prefix() +
          "waiting for Godot: all ranks arrived, but the operation did not finish within 2 s");
  others.set_timeout(50ms);
  MPI_Request request = MPI_REQUEST_NULL;
  EXPECT_EQ(Thrown<FatalError>([&] { others.Await(request, "waiting for one", nullptr); }),
            others.Prefix() +
                "waiting for one: the other ranks did not arrive within 0.05 s; one of them has "
                "stopped or is doing something else");
  EXPECT_TRUE(others.has_given_up());
  Mpi().operations_end = true;
  others.set_timeout(kRanksPatience);
  others.Barrier("meeting again");
}

TEST_F(RanksTest, TheSameBenchmarkIsEnteredTogether) {
  EXPECT_NO_THROW(ranks().AgreeOnEntry("Comm/AllReduce", 10));
}

TEST_F(RanksTest, TheTripwireNamesBothBenchmarks) {
  if (size() == 1) GTEST_SKIP() << "needs two ranks to differ";
  const std::string mine = is_last() ? "Comm/AllGather" : "Comm/AllReduce";
  const std::string text = Thrown<FatalError>([&] { ranks().AgreeOnEntry(mine, 1); });
  EXPECT_NE(text.find("rank 0 is at Comm/AllReduce (1 iterations)"), std::string::npos) << text;
  EXPECT_NE(text.find("rank " + Number(size() - 1) + " at Comm/AllGather (1 iterations)"),
            std::string::npos)
      << text;
}

TEST_F(RanksTest, TheTripwireNamesBothIterationCounts) {
  if (size() == 1) GTEST_SKIP() << "needs two ranks to differ";
  const std::string text =
      Thrown<FatalError>([&] { ranks().AgreeOnEntry("Comm/AllReduce", is_last() ? 20 : 10); });
  EXPECT_NE(text.find("(10 iterations)"), std::string::npos) << text;
  EXPECT_NE(text.find("(20 iterations)"), std::string::npos) << text;
}

TEST_F(RanksTest, TheTripwireNamesBothSettings) {
  EXPECT_NO_THROW(ranks().AgreeOnEntry("Compute/mine", 1, "--budget_ms=20"));
  if (size() == 1) GTEST_SKIP() << "needs two ranks to differ";
  const std::string text = Thrown<FatalError>([&] {
    ranks().AgreeOnEntry("Compute/mine", 1, is_last() ? "--budget_ms=21" : "--budget_ms=20");
  });
  EXPECT_NE(text.find("rank 0 is at Compute/mine (1 iterations, --budget_ms=20)"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("(1 iterations, --budget_ms=21)"), std::string::npos) << text;
}

TEST_F(RanksTest, AnErrorKnownToAllRanksIsMarkedSo) {
  if (size() == 1) GTEST_SKIP() << "needs two ranks to differ";
  try {
    ranks().AgreeOnEntry("benchmark " + Number(rank()), 1);
    FAIL() << "the ranks differ";
  } catch (const FatalError& error) {
    EXPECT_TRUE(error.known_to_all());
  }
}

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

TEST_F(RanksTest, RanksShareAClock) {
  ranks().Barrier("the test");
  const double now_ms = ranks().CommonClockMs();
  std::array spread = {now_ms, -now_ms};
  ranks().Max(spread, "the test");
  EXPECT_LT(spread[0] + spread[1], 1000) << "ms between ranks of one machine";
}

// Each has the offset of the first rank of its machine.
TEST_F(RanksTest, RanksOfTwoMachinesShareAClock) {
  Mpi().has_two_machines = true;
  if (rank() > 0) OwnClock().ahead = std::chrono::hours(1);
  {
    Progress progress(rank(), size());
    Ranks others(kRanksPatience, progress);
    EXPECT_EQ(others.local_rank(), rank() == 0 ? 0 : rank() - 1);
    EXPECT_EQ(others.local_size(), rank() == 0 ? 1 : size() - 1);
    others.Barrier("the test");
    const double now_ms = others.CommonClockMs();
    std::array spread = {now_ms, -now_ms};
    others.Max(spread, "the test");
    EXPECT_LT(spread[0] + spread[1], 5000) << "ms between ranks";
  }
  OwnClock().ahead = {};
  Mpi().has_two_machines = false;
}

// As of machines whose clocks are an hour apart.
TEST_F(RanksTest, ClockOffsetsBetweenMachinesAreMeasured) {
  constexpr double kHour_ms = 3.6e6;
  const auto skewed_ms = [&] { return NowMs() + kHour_ms * rank(); };
  const double offset_ms = ClockOffsetMs(ranks(), MPI_COMM_WORLD, skewed_ms);
  EXPECT_NEAR(offset_ms, -kHour_ms * rank(), 1000) << "ms, half of the quickest exchange";
}

// The offset is rank 0's time less the middle of the exchange.
TEST_F(RanksTest, AClockOffsetExcludesTheTravelTime) {
  const auto far_away_ms = [&] {
    if (rank() > 0) return NowMs();
    std::this_thread::sleep_for(20ms);
    const double now_ms = NowMs();
    std::this_thread::sleep_for(20ms);
    return now_ms;
  };
  EXPECT_NEAR(ClockOffsetMs(ranks(), MPI_COMM_WORLD, far_away_ms), 0, 10);
}

// Few exchanges are quick. All others are slow, and only in one direction.
TEST_F(RanksTest, AClockOffsetComesFromTheFastestExchange) {
  int asked = 0;
  const auto mostly_late_ms = [&] {
    if (rank() == 0 && asked++ % 20 >= 5) std::this_thread::sleep_for(60ms);
    return NowMs();
  };
  EXPECT_NEAR(ClockOffsetMs(ranks(), MPI_COMM_WORLD, mostly_late_ms), 0, 20);
  EXPECT_EQ(asked, rank() == 0 ? 20 * (size() - 1) : 0) << "twenty exchanges with each";
}

// A connection that a test can break.
struct FakeLink : Link {
  std::string Fault() override { return fault; }
  void Abort() override { ++aborts; }
  std::string fault;
  int aborts = 0;
};

TEST_F(RanksTest, EveryLinkIsAbortedAndChecked) {
  FakeLink first;
  FakeLink second;
  FakeLink removed;
  for (FakeLink* link : {&first, &removed, &second}) ranks().Add(*link);
  ranks().Remove(removed);
  ranks().AbortLinks();
  EXPECT_NO_THROW(ranks().CheckLinks());
  second.fault = "the cable is cut";
  EXPECT_EQ(Thrown<FatalError>([&] { ranks().CheckLinks(); }), ranks().Prefix() + second.fault);
  for (FakeLink* link : {&first, &second}) ranks().Remove(*link);
  EXPECT_NO_THROW(ranks().CheckLinks());
  EXPECT_EQ(first.aborts, 1);
  EXPECT_EQ(second.aborts, 1);
  EXPECT_EQ(removed.aborts, 0);
}

// ---- Notices

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
  OwnClock().stands_at = now;
  Mpi().probes = 0;
  const auto probes = [&] {
    notices.Receive();
    return Mpi().probes;
  };
  EXPECT_EQ(probes(), 1);
  EXPECT_EQ(probes(), 1);
  OwnClock().stands_at = now + std::chrono::microseconds(999);
  EXPECT_EQ(probes(), 1);
  OwnClock().stands_at = now + std::chrono::microseconds(1000);
  EXPECT_EQ(probes(), 2);
  OwnClock().stands_at.reset();
}

TEST(MpiCheck, NamesTheCallAndTheReason) {
  EXPECT_NO_THROW(ThrowIfMpiFailed(MPI_SUCCESS, "MPI_Thing"));
  const std::string text = Thrown<Error>([] { ThrowIfMpiFailed(MPI_ERR_COUNT, "MPI_Thing"); });
  EXPECT_EQ(text.find("MPI_Thing failed: "), 0U) << text;
  EXPECT_GT(text.size(), std::strlen("MPI_Thing failed: "));
}

}  // namespace
}  // namespace overlapbench
