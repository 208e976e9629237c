// Each way in which the watchdog ends a process, and what it does before. MPI is started in one.
#include "ranks/watchdog.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <mpi.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <string>
#include <utility>

#include "ranks/ranks.h"
#include "ranks/signs.h"

namespace overlapbench {
namespace {

using std::chrono_literals::operator""ms;
using std::chrono_literals::operator""s;
using testing::ExitedWithCode;

// How many ranks MPI has, if it is not its own to say; and whether it has been started.
int& RanksOfMpi() {
  static int ranks = 0;
  return ranks;
}

}  // namespace

// MPI's interface for profilers: these take the place of its own functions.
extern "C" {
int MPI_Initialized(int* flag) {
  if (RanksOfMpi() == 0) return PMPI_Initialized(flag);
  *flag = 1;
  return MPI_SUCCESS;
}
int MPI_Comm_size(MPI_Comm comm, int* size) {
  if (RanksOfMpi() == 0) return PMPI_Comm_size(comm, size);
  *size = RanksOfMpi();
  return MPI_SUCCESS;
}
int MPI_Abort(MPI_Comm /*comm*/, int errorcode) {
  std::cerr << "MPI aborts with " << errorcode << "\n";
  return MPI_SUCCESS;
}
}

namespace {

// A task that prints `text` and the reason when the process ends.
Watchdog::Task Say(const std::string& text) {
  return [text](const std::string& reason) { std::cerr << text << " (" << reason << ")\n"; };
}

void SleepForEver() {
  for (;;) pause();
}

// Each test starts threads in the child, so the child must be a fresh process.
class WatchdogDeathTest : public testing::Test {
 protected:
  void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
  Progress progress_{2, 4};
};

TEST_F(WatchdogDeathTest, EndsAStalledProcessAndSaysWhere) {
  EXPECT_EXIT(
      {
        const Watchdog watchdog(progress_, 100ms - Watchdog::kMargin);
        progress_.set_benchmark("Comm/AllReduce");
        const Progress::Scope scope(progress_, Phase::kWait, "COMM");
        SleepForEver();
      },
      ExitedWithCode(1),
      "no progress for 0.1 s at rank 2 of 4, Comm/AllReduce, waiting for the "
      "stream COMM");
}

TEST_F(WatchdogDeathTest, SparesAProcessThatMakesProgress) {
  EXPECT_EXIT(
      {
        const Watchdog watchdog(progress_, 1500ms - Watchdog::kMargin);
        for (int i = 0; i < 40; ++i) {
          const Progress::Scope scope(progress_, Phase::kWait);
          std::this_thread::sleep_for(50ms);
        }
        _exit(0);
      },
      ExitedWithCode(0), "^$");
}

TEST_F(WatchdogDeathTest, LeavesItsSignalsToAProcessThatIsNotTheSuites) {
  EXPECT_EXIT(
      {
        const Watchdog watchdog(progress_);
        std::raise(SIGTERM);
      },
      testing::KilledBySignal(SIGTERM), "^$");
  EXPECT_EXIT(Watchdog(progress_).End(7, "a reason", true), ExitedWithCode(7),
              "^overlapbench: a reason\n$");
}

struct SignalCase {
  int signal;
  const char* name;
  int ends_as;
};

TEST_F(WatchdogDeathTest, EndsOnSignalsWithTheirStatus) {
  for (const auto& [signal, name, ends_as] :
       {SignalCase{SIGINT, "Ctrl-C", SIGINT}, SignalCase{Watchdog::kInterrupted, "Ctrl-C", SIGINT},
        SignalCase{SIGTERM, "SIGTERM", SIGTERM}, SignalCase{SIGHUP, "SIGHUP", SIGHUP}}) {
    EXPECT_EXIT(
        {
          Progress root(0, 4);
          Watchdog watchdog(root, 60s);
          const auto keeping = watchdog.AtEnd(Say("kept"));
          kill(getpid(), signal);
          SleepForEver();
        },
        ExitedWithCode(128 + ends_as), std::string("ended by ") + name + " at rank 0 of 4.*kept");
  }
}

// The first rank to exit ends the job.
TEST_F(WatchdogDeathTest, AfterCtrlCTheOthersLeaveRank0TimeToSave) {
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EXIT(
      {
        Progress progress(1, 4);
        const Watchdog watchdog(progress, 60s);
        kill(getpid(), SIGINT);
        SleepForEver();
      },
      ExitedWithCode(128 + SIGINT), "^$");
  EXPECT_GE(std::chrono::steady_clock::now() - start, 2s);
}

TEST_F(WatchdogDeathTest, AfterAnErrorTheOthersLeaveRank0TimeToSave) {
  for (const int rank : {0, 2}) {
    const auto start = std::chrono::steady_clock::now();
    EXPECT_EXIT(
        {
          Progress progress(rank, 4);
          Ranks ranks({.rank = rank, .size = 4}, progress);
          Watchdog watchdog(progress, 60s);
          EndJob(watchdog, progress, &ranks, FatalError("the end", FatalError::kPrinted));
        },
        ExitedWithCode(1), "^$");
    EXPECT_EQ(std::chrono::steady_clock::now() - start >= 2s, rank != 0) << "rank " << rank;
  }
}

// Or it would measure on, and even end, while the job is ended by this or another rank.
TEST_F(WatchdogDeathTest, AnEndingRankGoesNoFurther) {
  EXPECT_EXIT(
      {
        Progress root(0, 4);
        Watchdog watchdog(root, 60s);
        std::atomic<bool> is_ending = false;
        const auto keeping = watchdog.AtEnd([&](const std::string&) {
          is_ending = true;
          std::this_thread::sleep_for(500ms);
        });
        kill(getpid(), SIGINT);
        while (!is_ending) std::this_thread::sleep_for(1ms);
        const Progress::Scope scope(root, Phase::kWait);
        _exit(0);
      },
      ExitedWithCode(128 + SIGINT), "ended by Ctrl-C");
}

TEST_F(WatchdogDeathTest, TheFirstOfTwoEndsCounts) {
  EXPECT_EXIT(
      {
        Watchdog watchdog(progress_, 60s);
        std::atomic<bool> is_ending = false;
        const auto keeping = watchdog.AtEnd([&](const std::string&) {
          is_ending = true;
          std::this_thread::sleep_for(300ms);
        });
        std::thread([&] {
          while (!is_ending) std::this_thread::sleep_for(1ms);
          watchdog.End(9, "another reason", true);
        }).detach();
        watchdog.End(7, "a reason", true);
      },
      ExitedWithCode(7), "^overlapbench: a reason\n$");
}

// Anyone may send it.
TEST_F(WatchdogDeathTest, ASignalThatNoLauncherMeansIsNamed) {
  const auto end = [] {
    Progress root(0, 4);
    const Watchdog watchdog(root, 60s);
    if (fork() == 0) {
      kill(getppid(), Watchdog::kReaderIsGone);
      _exit(0);
    }
    SleepForEver();
  };
  unsetenv("OVERLAPBENCH_SIGNS");
  EXPECT_EXIT(end(), ExitedWithCode(128 + SIGPIPE), "^overlapbench: ended by SIGUSR2 at rank 0");
  setenv("OVERLAPBENCH_SIGNS", "1", 1);
  EXPECT_EXIT(end(), ExitedWithCode(128 + SIGPIPE), "^$");
  unsetenv("OVERLAPBENCH_SIGNS");
}

// Only SIGTERM may come because a rank is lost. MPI may hang then.
TEST_F(WatchdogDeathTest, TheOtherRanksAreAskedAfterSigtermButNotWaitedFor) {
  const auto end_by = [](int signal, const std::function<std::string()>& ask) {
    Progress root(0, 4);
    Watchdog watchdog(root, 60s);
    const auto asking = watchdog.OnTerminated(ask);
    kill(getpid(), signal);
    SleepForEver();
  };
  const auto says_one = [] { return std::string("; rank 3 is silent"); };
  const auto hangs = [] {
    SleepForEver();
    return std::string();
  };
  EXPECT_EXIT(end_by(SIGTERM, says_one), ExitedWithCode(128 + SIGTERM),
              "at rank 0 of 4, between benchmarks; rank 3 is silent\n$");
  EXPECT_EXIT(end_by(SIGHUP, says_one), ExitedWithCode(128 + SIGHUP), "between benchmarks\n$");
  EXPECT_EXIT(end_by(SIGTERM, hangs), ExitedWithCode(128 + SIGTERM), "between benchmarks\n$");
}

// As a full pipe whose reader has stopped.
TEST_F(WatchdogDeathTest, EndsAtOnceIfNobodyTakesItsLines) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "the thread sanitizer's _exit flushes standard output, which is stuck";
#endif
  EXPECT_EXIT(
      {
        Watchdog watchdog(progress_, 60s);
        int ends[2];
        if (pipe2(ends, O_NONBLOCK) != 0) _exit(1);
        while (write(ends[1], "x", 1) == 1) {
        }
        fcntl(ends[1], F_SETFL, 0);
        dup2(ends[1], STDOUT_FILENO);
        const auto keeping = watchdog.AtEnd([](const std::string&) { _exit(9); });
        watchdog.BeforeLines([] { std::cout << "cleared" << std::flush; });
        watchdog.End(7, "a reason", true);
      },
      ExitedWithCode(9), "^overlapbench: a reason\n$");
}

// Also where a shell has started it with the signal ignored.
TEST_F(WatchdogDeathTest, EndsQuietlyWhenNobodyReads) {
  EXPECT_EXIT(
      {
        std::signal(Watchdog::kReaderIsGone, SIG_IGN);
        Progress root(0, 4);
        Watchdog watchdog(root, 60s);
        const auto keeping = watchdog.AtEnd(Say("kept"));
        kill(getpid(), Watchdog::kReaderIsGone);
        SleepForEver();
      },
      ExitedWithCode(128 + SIGPIPE), "^kept .standard output was closed.\n$");
}

TEST_F(WatchdogDeathTest, ALineOfProgressIsClearedBeforeALine) {
  EXPECT_EXIT(
      {
        Watchdog watchdog(progress_, 60s);
        watchdog.BeforeLines([] { std::cerr << "cleared\n"; });
        watchdog.End(7, "a reason", true);
      },
      ExitedWithCode(7), "^cleared\noverlapbench: a reason\n$");
}

TEST_F(WatchdogDeathTest, OnlyRank0ReportsASignal) {
  EXPECT_EXIT(
      {
        const Watchdog watchdog(progress_, 60s);
        kill(getpid(), SIGTERM);
        SleepForEver();
      },
      ExitedWithCode(128 + SIGTERM), "^$");
}

// A launcher ends the ranks that leave later than one that failed.
TEST_F(WatchdogDeathTest, NobodyReportsASignalAfterTheEndOfMpi) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "the thread sanitizer reports races among OpenMPI's own threads";
#endif
  EXPECT_EXIT(
      {
        Progress root(0, 4);
        // First, as in the program: MPI's threads inherit the blocked signals, and may outlive it.
        const Watchdog watchdog(root, 60s);
        MPI_Init(nullptr, nullptr);
        MPI_Finalize();
        kill(getpid(), SIGTERM);
        SleepForEver();
      },
      ExitedWithCode(128 + SIGTERM), "^$");
}

// MPI would only add lines of its own to the end of a single rank.
TEST_F(WatchdogDeathTest, TheLauncherIsToldToEndTheOtherRanks) {
  for (const auto& [ranks, said] :
       {std::pair{2, "^kept .a reason.\nMPI aborts with 7\n$"}, {1, "^kept .a reason.\n$"}}) {
    RanksOfMpi() = ranks;
    EXPECT_EXIT(
        {
          Watchdog watchdog(progress_, 60s);
          const auto keeping = watchdog.AtEnd(Say("kept"));
          watchdog.End(7, "a reason", false);
        },
        ExitedWithCode(7), said)
        << ranks;
    RanksOfMpi() = 0;
  }
}

// ./bench must know that the ranks have ended, and whether by a signal.
TEST_F(WatchdogDeathTest, GivesItsSignWithTheLineOrAlone) {
  setenv("OVERLAPBENCH_SIGNS", "1", 1);
  const auto end = [&](int status, bool show) {
    Watchdog watchdog(progress_, 60s);
    watchdog.End(status, "a reason", show);
  };
  const std::string line = "^overlapbench: a reason\n";
  EXPECT_EXIT(end(7, true), ExitedWithCode(7), line + kSigns[1] + "$");
  EXPECT_EXIT(end(7, false), ExitedWithCode(7), "^" + std::string(kSigns[1]) + "$");
  EXPECT_EXIT(end(143, true), ExitedWithCode(143), line + kSigns[2] + "$");
  EXPECT_EXIT(end(143, false), ExitedWithCode(143), "^$") << "rank 0 gives it";
  unsetenv("OVERLAPBENCH_SIGNS");
}

TEST(Accepts, IsOfADescriptorThatTakesMore) {
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_NONBLOCK), 0);
  EXPECT_TRUE(Accepts(ends[1]));
  EXPECT_FALSE(Accepts(ends[0])) << "it is for reading";
  while (write(ends[1], "x", 1) == 1) {
  }
  EXPECT_FALSE(Accepts(ends[1])) << "it is full";
  close(ends[0]);
  close(ends[1]);
  EXPECT_FALSE(Accepts(ends[1])) << "it is closed";
}

TEST_F(WatchdogDeathTest, TheLastRegisteredTaskRunsFirst) {
  EXPECT_EXIT(
      {
        Watchdog watchdog(progress_, 60s);
        const auto aborting = watchdog.AtEnd(Say("aborted"));
        const auto keeping = watchdog.AtEnd(Say("kept"));
        watchdog.End(7, "a reason", true);
      },
      ExitedWithCode(7), "overlapbench: a reason\nkept .a reason.\naborted");
}

TEST_F(WatchdogDeathTest, AWithdrawnTaskDoesNotRun) {
  EXPECT_EXIT(
      {
        Watchdog watchdog(progress_, 60s);
        {
          const auto gone = watchdog.AtEnd(Say("kept"));
        }
        watchdog.End(7, "a reason", false);
      },
      ExitedWithCode(7), "^$");
}

TEST_F(WatchdogDeathTest, AFailingTaskDoesNotStopTheOthers) {
  EXPECT_EXIT(
      {
        Watchdog watchdog(progress_, 60s);
        const auto aborting = watchdog.AtEnd(Say("aborted"));
        const auto failing = watchdog.AtEnd(
            [](const std::string&) { throw std::runtime_error("the disk is full"); });
        watchdog.End(7, "a reason", false);
      },
      ExitedWithCode(7), "while ending: the disk is full\naborted");
}

TEST_F(WatchdogDeathTest, EndsEvenIfATaskHangs) {
  EXPECT_EXIT(
      {
        Watchdog watchdog(progress_, 60s);
        const auto hanging = watchdog.AtEnd([](const std::string&) { SleepForEver(); });
        watchdog.End(7, "a reason", false);
      },
      ExitedWithCode(7), "");
}

struct ErrorCase {
  FatalError::Audience audience;
  int rank;
  const char* shown;
};

// An error is printed once: by its own rank, or by rank 0 if all ranks know of it.
TEST_F(WatchdogDeathTest, AnErrorIsPrintedByOneRank) {
  for (const auto& [audience, rank, shown] :
       {ErrorCase{FatalError::kThisRank, 2,
                  "^overlapbench: the end .rank 2 of 4, starting MPI.\n$"},
        ErrorCase{FatalError::kKnownToAll, 0, "^overlapbench: the end\n$"},
        ErrorCase{FatalError::kKnownToAll, 2, "^$"}, ErrorCase{FatalError::kPrinted, 0, "^$"},
        ErrorCase{FatalError::kPrinted, 2, "^$"}}) {
    EXPECT_EXIT(
        {
          Progress progress(rank, 4);
          Watchdog watchdog(progress, 60s);
          const Progress::Scope scope(progress, Phase::kStart);
          EndJob(watchdog, progress, nullptr, FatalError("the end", audience));
        },
        ExitedWithCode(1), shown);
  }
}

TEST_F(WatchdogDeathTest, AnErrorThatIsNotFatalIsReportedByItsRank) {
  EXPECT_EXIT(
      {
        Watchdog watchdog(progress_, 60s);
        const auto keeping = watchdog.AtEnd(Say("kept"));
        EndJob(watchdog, progress_, nullptr, Error("no memory"));
      },
      ExitedWithCode(1), "^overlapbench: no memory .rank 2 of 4, .*kept .no memory .rank 2 of 4");
}

}  // namespace
}  // namespace overlapbench
