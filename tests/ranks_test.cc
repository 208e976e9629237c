// What ranks agree on and send each other, on one rank, on two and on three.
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
#include "test_ranks.h"
#include "thrown.h"

namespace overlapbench {
namespace {

using std::chrono_literals::operator""ms;

// What MPI has been asked for, and how it is to behave.
struct FakeMpi {
  int communicators = 0;  // that exist beyond its own
  int returning = 0;      // communicators whose errors are returned, MPI_COMM_WORLD among them
  int most_threads = MPI_THREAD_MULTIPLE;
  bool operations_end = true;
};
FakeMpi& Mpi() {
  static FakeMpi mpi;
  return mpi;
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

// The linker puts it in the place of the suite's.
std::optional<double> FakeQuota(const std::filesystem::path& root) asm(
    "__wrap__ZN12overlapbench9CoreQuotaERKNSt10filesystem7__cxx114pathE");
std::optional<double> FakeQuota(const std::filesystem::path& /*root*/) { return Quota(); }

namespace {

using std::chrono_literals::operator""s;

std::string Number(int value) { return std::to_string(value); }

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
    const double value = ranks().Max(std::sin(1000 * rank() + i) / 3, "the test");
    const double highest = ranks().Max(value, "the test");
    EXPECT_EQ(highest, -ranks().Max(-value, "the test"));
    EXPECT_EQ(highest, value);
  }
}

TEST_F(RanksTest, AnyHoldsIfItHoldsOnOneRank) {
  EXPECT_FALSE(ranks().Any(false, "the test"));
  EXPECT_TRUE(ranks().Any(is_last(), "the test"));
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

TEST(MpiCheck, NamesTheCallAndTheReason) {
  EXPECT_NO_THROW(ThrowIfMpiFailed(MPI_SUCCESS, "MPI_Thing"));
  const std::string text = Thrown<Error>([] { ThrowIfMpiFailed(MPI_ERR_COUNT, "MPI_Thing"); });
  EXPECT_EQ(text.find("MPI_Thing failed: "), 0U) << text;
  EXPECT_GT(text.size(), std::strlen("MPI_Thing failed: "));
}

}  // namespace
}  // namespace overlapbench
