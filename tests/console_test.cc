// What the console shows, to the letter: the head of a run, rows in columns, and what is left of
// it.
#include "report/console.h"

#include <gtest/gtest.h>

#include <chrono>
#include <iostream>
#include <memory>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace overlapbench {
namespace {

using std::chrono_literals::operator""s;
using SteadyClock = std::chrono::steady_clock;

// The time, which stands still: how long a busy machine takes must not matter. It is far ahead of
// the system's, so the line of progress is not renewed by itself.
std::chrono::seconds& Now() {
  static std::chrono::seconds now = std::chrono::years(100);
  return now;
}

}  // namespace

// The linker puts it in the place of the steady clock's.
SteadyClock::time_point FakeNow() asm("__wrap__ZNSt6chrono3_V212steady_clock3nowEv");
SteadyClock::time_point FakeNow() { return SteadyClock::time_point(Now()); }

namespace {

class ConsoleTest : public testing::Test {
 public:
  ~ConsoleTest() override {
    console_.reset();
    std::cout.rdbuf(before_);
  }

 protected:
  ConsoleTest() : before_(std::cout.rdbuf(taken_.rdbuf())) {
    table_.Add(Counter{"furlongs", "", Better::kHigher, Range::kPositive, "distance", "of a race"});
    table_.Add(FamilyText{"Race", "Horses.", {"furlongs", "GBps", "cv", "skew_us", "bound_ms"}});
  }
  Console& Make(RowTableOptions options) {
    console_ = std::make_unique<Console>(table_, std::move(options));
    return *console_;
  }
  // Names of rows to come.
  static std::vector<std::string> Rows(std::size_t count) {
    return std::vector<std::string>(count, "Race/Any");
  }
  // What has been shown since the last call.
  std::string Shown() {
    const std::string all = taken_.str();
    return all.substr(std::exchange(seen_, all.size()));
  }
  static Row Measured(const std::string& name) {
    Row row;
    row.name = name;
    row.time_ms = 4;
    row.counters["furlongs"] = 12;
    return row;
  }

  CounterTable table_;

 private:
  std::ostringstream taken_;
  std::streambuf* before_;
  std::size_t seen_ = 0;
  std::unique_ptr<Console> console_;
};

TEST_F(ConsoleTest, TheHeadOfARunIsWrappedAndItsWarningYellow) {
  Console& console = Make({.screen = {.columns = 40, .has_colour = true}, .planned = Rows(12)});
  console.ShowContext("a machine with a long name, and eight cores", "");
  EXPECT_EQ(Shown(), "a machine with a long name, and eight\ncores\n");
  console.ShowContext("a machine", "its governor is powersave, so expect noise");
  EXPECT_EQ(Shown(),
            "a machine\n\033[33mwarning: its governor is powersave, so\nexpect noise\033[0m\n");
  console.ShowPlan();
  EXPECT_EQ(Shown(),
            "12 benchmarks; times are medians, the\nmaximum over the ranks; ± reaches to the\n"
            "farther end of the 95 % interval\n");
}

TEST_F(ConsoleTest, ThePlanNamesRepetitions) {
  Make({.planned = {"a"}, .repetitions = 2}).ShowPlan();
  EXPECT_EQ(Shown(),
            "1 benchmark, 2 repetitions each; times are medians, the maximum over the ranks;\n"
            "± reaches to the farther end of the 95 % interval\n");
}

TEST_F(ConsoleTest, ARowIsShownWhenItEnds) {
  Console& console = Make({.planned = {"Race/Horse"}, .repetitions = 2});
  Row row = Measured("Race/Horse");
  row.state = RowState::kNoisy;
  console.Show(row, 1);
  EXPECT_EQ(Shown(), "\nRace/Horse\n#  time ms  distance\n1    4.000     12.00  noisy\n");
  console.Show(row, 2);
  EXPECT_EQ(Shown(), "2    4.000     12.00  noisy\n");
  console.ShowEnd({row, row});
  EXPECT_EQ(Shown(),
            "\n2 of 2 rows are noisy: measure on an idle machine, or raise --budget_ms.\n");
  console.ShowEnd({});
  EXPECT_EQ(Shown(), "");
}

// ---- The line of progress

const std::string kClear = "\r\033[K";

class ProgressLineTest : public ConsoleTest {
 protected:
  // The line while `name` runs.
  std::string LineOf(Console& console, const std::string& name) {
    Shown();
    console.Begin(name);
    const std::string shown = Shown();
    EXPECT_TRUE(shown.starts_with(kClear)) << shown;
    EXPECT_TRUE(shown.ends_with("\r")) << shown;
    return shown.substr(kClear.size(), shown.size() - kClear.size() - 1);
  }
};

TEST_F(ProgressLineTest, SaysWhatIsLeftByTheTimesSoFar) {
  Console& console = Make({.screen = {.columns = 60, .is_terminal = true}, .planned = Rows(4)});
  console.ShowPlan();
  EXPECT_EQ(LineOf(console, "a"), "[1/4] a  0 %");
  Now() += 65s;
  console.Show(Measured("a"), 1);
  EXPECT_EQ(LineOf(console, "b"), "[2/4] b  25 %  3:15 left");
  Now() += 30s;
  EXPECT_EQ(LineOf(console, "b"), "[2/4] b  25 %  2:45 left");
  Now() += 45s;  // longer than the one before: no time is known to be left of it
  EXPECT_EQ(LineOf(console, "b"), "[2/4] b  25 %  2:10 left");
  console.Show(Measured("b"), 1);
  console.Show(Measured("b"), 2);  // shows a row once
  EXPECT_EQ(LineOf(console, "c"), "[3/4] c  50 %  2:20 left");
  Now() += 7300s * 3 - 140s;
  console.Show(Measured("c"), 1);
  EXPECT_EQ(LineOf(console, "d"), "[4/4] d  75 %  2:01:40 left");
  Now() += 7300s - 3605s;
  EXPECT_EQ(LineOf(console, "d"), "[4/4] d  75 %  1:00:05 left");
  Now() += 6s;
  EXPECT_EQ(LineOf(console, "d"), "[4/4] d  75 %  59:59 left");
  Now() += 3600s;
  EXPECT_EQ(LineOf(console, "d"), "[4/4] d  75 %  0:00 left");
}

TEST_F(ProgressLineTest, CountsRepetitions) {
  Console& console =
      Make({.screen = {.columns = 60, .is_terminal = true}, .planned = Rows(2), .repetitions = 2});
  console.ShowPlan();
  EXPECT_EQ(LineOf(console, "a"), "[1/2] a  1 of 2  0 %");
  Now() += 10s;
  console.EndRepetition();
  Shown();
  console.ShowContext("a line", "");
  EXPECT_EQ(Shown(), kClear + "a line\n" + kClear + "[1/2] a  2 of 2  25 %  0:30 left\r");
  Now() += 10s;
  console.EndRepetition();
  console.ShowContext("a line", "");
  EXPECT_EQ(Shown(), kClear + "a line\n" + kClear + "[1/2] a  2 of 2  50 %  0:20 left\r");
  console.Show(Measured("a"), 1);
  EXPECT_EQ(Shown(), kClear + "\na\n#  time ms\n1    4.000\n");
  EXPECT_EQ(LineOf(console, "b"), "[2/2] b  1 of 2  50 %  0:20 left");
}

TEST_F(ProgressLineTest, ShortensTheNameToTheScreen) {
  const std::string name = "Race/" + std::string(40, 'x');
  Console& console = Make(
      {.screen = {.columns = 40, .is_terminal = true, .has_colour = true}, .planned = Rows(9)});
  console.ShowPlan();
  EXPECT_EQ(LineOf(console, name), "\033[2m[1/9] Race/" + std::string(20, 'x') + "...  0 %\033[0m");
  Console& narrow = Make({.screen = {.columns = 12, .is_terminal = true}, .planned = Rows(9)});
  narrow.ShowPlan();
  EXPECT_EQ(LineOf(narrow, name), "[1/9] ...  0 %");
  Console& none = Make({.screen = {.columns = 40, .is_terminal = true}});
  none.ShowPlan();
  EXPECT_EQ(LineOf(none, "a"), "[1/0] a  0 %");
}

TEST_F(ProgressLineTest, IsHiddenForGood) {
  Console& console = Make({.screen = {.columns = 60, .is_terminal = true}, .planned = Rows(2)});
  console.Begin("a");
  Shown();
  // Its thread, as it starts, may hold the lock.
  std::string hidden;
  for (int tries = 0; tries < 1000 && hidden.empty(); ++tries) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    console.HideProgress();
    hidden = Shown();
  }
  EXPECT_EQ(hidden, kClear);
  console.HideProgress();
  console.Begin("b");
  EXPECT_EQ(Shown(), "");
  Console& pipe = Make({.planned = Rows(2)});
  pipe.Begin("a");
  pipe.HideProgress();
  EXPECT_EQ(Shown(), "");
}

}  // namespace
}  // namespace overlapbench
