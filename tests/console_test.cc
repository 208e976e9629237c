// What the console shows, to the letter: the head of a run, rows in columns, and what is left of
// it.
#include "report/console.h"

#include <gtest/gtest.h>

#include <chrono>
#include <iostream>
#include <limits>
#include <memory>
#include <sstream>
#include <string>
#include <utility>

namespace overlapbench {
namespace {

using std::chrono_literals::operator""s;
using SteadyClock = std::chrono::steady_clock;

// The time, which stands still: how long a busy machine takes must not matter.
std::chrono::seconds& Now() {
  static std::chrono::seconds now(0);
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
  Console& Make(ConsoleOptions options) {
    console_ = std::make_unique<Console>(table_, std::move(options));
    return *console_;
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
  Console& console = Make({.screen = {.columns = 40, .has_colour = true}, .planned = 12});
  console.ShowContext("a machine with a long name, and eight cores", "");
  EXPECT_EQ(Shown(), "a machine with a long name, and eight\ncores\n");
  console.ShowContext("a machine", "its governor is powersave, so expect noise");
  EXPECT_EQ(Shown(),
            "a machine\n\033[33mwarning: its governor is powersave, so\nexpect noise\033[0m\n");
  console.ShowPlan();
  EXPECT_EQ(Shown(), "12 benchmarks; times are medians, the\nmaximum over the ranks\n");
}

TEST_F(ConsoleTest, ThePlanNamesRepetitions) {
  Make({.planned = 1, .repetitions = 2}).ShowPlan();
  EXPECT_EQ(Shown(),
            "1 benchmarks, 2 repetitions each; times are medians, the maximum over the ranks\n");
}

TEST_F(ConsoleTest, StatesHaveColours) {
  Console& console = Make({.screen = {.columns = 80, .has_colour = true}, .planned = 9});
  const auto remark = [&](RowState state) {
    Row row = Measured("Walk");
    row.state = state;
    console.Show(row, 2);
    const std::string shown = Shown();
    return shown.substr(shown.find("ms") + 2);
  };
  EXPECT_EQ(remark(RowState::kOk), "\n");
  EXPECT_EQ(remark(RowState::kNoisy), "    \033[33mnoisy\033[0m\n");
  EXPECT_EQ(remark(RowState::kSerialized), "    \033[33mserialized\033[0m\n");
  EXPECT_EQ(remark(RowState::kInvalid), "    \033[31minvalid\033[0m\n");
  EXPECT_EQ(remark(RowState::kControl), "    \033[32mcontrol\033[0m\n");
}

// A program may read them.
TEST_F(ConsoleTest, LinesAreBrokenOnATerminalOnly) {
  const std::string name = "Race/Horse/" + std::string(100, 'x') + "/laps:2";
  Row row = Measured(name);
  row.reason = std::string(60, 'a') + " " + std::string(60, 'b');
  Make({.planned = 1}).Show(row, 1);
  EXPECT_EQ(Shown(), "[1/1] " + name + "\n        4.000 ms  distance 12.00  " + row.reason + "\n");
}

TEST_F(ConsoleTest, ErrorsAndRemarksAreBrokenWithAnIndent) {
  Console& console =
      Make({.screen = {.columns = 40, .is_terminal = true}, .tabular = true, .planned = 2});
  console.HideProgress();
  Shown();
  Row row = Measured("Walk");
  row.state = RowState::kError;
  row.reason = "it fell at the second of three fences";
  console.Show(row, 2);
  EXPECT_EQ(Shown(), "        ERROR: it fell at the second of\n        three fences\n");
  row.state = RowState::kInvalid;
  console.Show(row, 2);
  EXPECT_EQ(Shown(),
            "    time ms\n      4.000\n        invalid: it fell at the second\n"
            "        of three fences\n");
}

TEST_F(ConsoleTest, ColumnsHaveRoomForIntervalsAndAreNamedWhenTheyChange) {
  Console& console = Make({.unit = {"us"}, .tabular = true, .planned = 5});
  Row row = Measured("Race/Horse");
  row.time_ms = {4, Interval{3.9, 4.1}};
  row.counters["GBps"] = {312.4, Interval{310, 320}};
  row.counters["skew_us"] = 1.5;
  row.counters["bound_ms"] = {2, Interval{1.5, 2.5}};
  console.Show(row, 1);
  EXPECT_EQ(Shown(),
            "[1/5] Race/Horse\n"
            "          time us   distance          bandwidth GB/s    skew us         bound us\n"
            "        4000 ±100      12.00         312.4 -2.4 +7.6      1.500        2000 ±500\n");
  console.Show(row, 2);
  EXPECT_EQ(Shown(),
            "        4000 ±100      12.00         312.4 -2.4 +7.6      1.500        2000 ±500\n");
  row.counters.erase("GBps");
  row.state = RowState::kError;
  row.reason = "it fell";
  console.Show(row, 1);
  EXPECT_EQ(Shown(), "[2/5] Race/Horse\n        ERROR: it fell\n");
  row.state = RowState::kNoisy;
  console.Show(row, 1);
  EXPECT_EQ(Shown(),
            "[3/5] Race/Horse\n"
            "          time us   distance    skew us         bound us\n"
            "        4000 ±100      12.00      1.500        2000 ±500\n"
            "        noisy: it fell\n");
}

TEST_F(ConsoleTest, NoisyRowsAreCounted) {
  Console& console = Make({.screen = {.columns = 60}});
  std::vector<Row> rows(3, Measured("Race/Horse"));
  console.ShowTables(rows);
  EXPECT_EQ(Shown(), "");
  rows[0].state = rows[2].state = RowState::kNoisy;
  console.ShowTables(rows);
  EXPECT_EQ(
      Shown(),
      "\n2 of 3 rows are noisy and say why: measure on an idle\nmachine, or raise --budget_ms\n");
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
  Console& console = Make({.screen = {.columns = 60, .is_terminal = true}, .planned = 4});
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
      Make({.screen = {.columns = 60, .is_terminal = true}, .planned = 2, .repetitions = 2});
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
  EXPECT_EQ(Shown(), kClear + "[1/2] a\n        1 of 2: 4.000 ms\n");
  EXPECT_EQ(LineOf(console, "b"), "[2/2] b  1 of 2  50 %  0:20 left");
}

TEST_F(ProgressLineTest, ShortensTheNameToTheScreen) {
  const std::string name = "Race/" + std::string(40, 'x');
  Console& console =
      Make({.screen = {.columns = 40, .is_terminal = true, .has_colour = true}, .planned = 9});
  console.ShowPlan();
  EXPECT_EQ(LineOf(console, name), "\033[2m[1/9] Race/" + std::string(20, 'x') + "...  0 %\033[0m");
  Console& narrow = Make({.screen = {.columns = 12, .is_terminal = true}, .planned = 9});
  narrow.ShowPlan();
  EXPECT_EQ(LineOf(narrow, name), "[1/9] ...  0 %");
  Console& none = Make({.screen = {.columns = 40, .is_terminal = true}});
  none.ShowPlan();
  EXPECT_EQ(LineOf(none, "a"), "[1/0] a  0 %");
}

TEST_F(ProgressLineTest, IsHiddenForGood) {
  Console& console = Make({.screen = {.columns = 60, .is_terminal = true}, .planned = 2});
  console.Begin("a");
  Shown();
  console.HideProgress();
  EXPECT_EQ(Shown(), kClear);
  console.HideProgress();
  console.Begin("b");
  EXPECT_EQ(Shown(), "");
  Console& pipe = Make({.planned = 2});
  pipe.Begin("a");
  pipe.HideProgress();
  EXPECT_EQ(Shown(), "");
}

}  // namespace
}  // namespace overlapbench
