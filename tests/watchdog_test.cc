// Each way in which the watchdog ends a process, and what it does before. MPI is not started here.
#include "ranks/watchdog.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <iostream>

namespace overlapbench {
namespace {

using std::chrono_literals::operator""ms;
using std::chrono_literals::operator""s;
using testing::ExitedWithCode;

// What is shown when the process ends.
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

TEST_F(WatchdogDeathTest, EndsAProcessThatStandsStillAndSaysWhere) {
  EXPECT_EXIT(
      {
        const Watchdog watchdog(progress_, 100ms - Watchdog::kMargin);
        progress_.set_benchmark("Comm/AllReduce");
        const Progress::Scope scope(progress_, Phase::kWait, "COMM");
        SleepForEver();
      },
      ExitedWithCode(1),
      "nothing has gone on .* at rank 2 of 4, Comm/AllReduce, waiting for the "
      "stream COMM");
}

TEST_F(WatchdogDeathTest, LetsAProcessGoOnThatMakesProgress) {
  EXPECT_EXIT(
      {
        const Watchdog watchdog(progress_, 300ms - Watchdog::kMargin);
        for (int i = 0; i < 40; ++i) {
          const Progress::Scope scope(progress_, Phase::kWait);
          std::this_thread::sleep_for(20ms);
        }
        _exit(0);
      },
      ExitedWithCode(0), "^$");
}

struct SignalCase {
  int signal;
  const char* name;
};

TEST_F(WatchdogDeathTest, EndsOnSignalsWithTheirStatus) {
  for (const auto& [signal, name] : {SignalCase{SIGINT, "SIGINT"}, SignalCase{SIGTERM, "SIGTERM"},
                                     SignalCase{SIGHUP, "SIGHUP"}}) {
    EXPECT_EXIT(
        {
          Progress root(0, 4);
          Watchdog watchdog(root, 60s);
          const auto keeping = watchdog.AtEnd(Say("kept"));
          kill(getpid(), signal);
          SleepForEver();
        },
        ExitedWithCode(128 + signal), std::string("ended by ") + name + " at rank 0 of 4.*kept");
  }
}

TEST_F(WatchdogDeathTest, OtherRanksThanTheFirstEndBySignalInSilence) {
  EXPECT_EXIT(
      {
        const Watchdog watchdog(progress_, 60s);
        kill(getpid(), SIGTERM);
        SleepForEver();
      },
      ExitedWithCode(128 + SIGTERM), "^$");
}

TEST_F(WatchdogDeathTest, WhatWasRegisteredLastIsDoneFirst) {
  EXPECT_EXIT(
      {
        Watchdog watchdog(progress_, 60s);
        const auto aborting = watchdog.AtEnd(Say("aborted"));
        const auto keeping = watchdog.AtEnd(Say("kept"));
        watchdog.End(7, "a reason", true);
      },
      ExitedWithCode(7), "overlapbench: a reason\nkept .a reason.\naborted");
}

TEST_F(WatchdogDeathTest, WhatWasWithdrawnIsNotDone) {
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

TEST_F(WatchdogDeathTest, AFailureWhileEndingKeepsNothingElseFromBeingDone) {
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

TEST_F(WatchdogDeathTest, EndsAlthoughEndingHangs) {
  EXPECT_EXIT(
      {
        Watchdog watchdog(progress_, 60s);
        const auto hanging = watchdog.AtEnd([](const std::string&) { SleepForEver(); });
        watchdog.End(7, "a reason", false);
      },
      ExitedWithCode(7), "");
}

}  // namespace
}  // namespace overlapbench
