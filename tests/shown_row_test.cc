// What the console shows of finished rows: their lead counters, states and intervals, on a
// terminal and as CSV.
#include <chrono>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "run_reporters.h"

namespace overlapbench {
namespace {

using std::chrono_literals::operator""ms;
using std::chrono_literals::operator""s;

using ShownRowTest = RunReporterTest;

TEST_F(ShownRowTest, ARowShowsTheLeadCountersOfItsFamily) {
  Finished one = Measured("Race/Horse/laps:2");
  one.row.counters["cv"] = 0.5;
  one.row.counters["GBps"] = 312.44;
  one.row.counters["slowest_rank"] = 3;
  EXPECT_EQ(Shown(one),
            "\nRace/Horse  laps:2\n"
            "time ms  distance  bandwidth GB/s     cv  slowest rank\n"
            "  4.000     12.00           312.4   0.50             3\n");
}

TEST_F(ShownRowTest, ARowOfAnotherFamilyShowsItsTime) {
  EXPECT_EQ(Shown(Measured("Walk/Horse")), "\nWalk/Horse\ntime ms\n  4.000\n");
}

TEST_F(ShownRowTest, ARowShowsItsStateAndReason) {
  const auto remark = [this](RowState state, const char* reason) {
    const std::string shown = Shown(InState(Measured("Race/Horse"), state, reason));
    const std::string before = "12.00";
    const auto begin = shown.find(before) + before.size();
    return shown.substr(begin, shown.size() - begin - 1);
  };
  EXPECT_EQ(remark(RowState::kOk, ""), "");
  EXPECT_EQ(remark(RowState::kOk, "a finding"), "  a finding");
  EXPECT_EQ(remark(RowState::kSerialized, "it waited"), "  serial: it waited");
  EXPECT_EQ(remark(RowState::kInvalid, "it slipped"), "  invalid: it slipped");
  EXPECT_EQ(Shown(Failed(Measured("Race/Horse"), "it fell")), "\nRace/Horse\nERROR: it fell\n");
}

TEST_F(ShownRowTest, RepetitionsAreNumbered) {
  console_.repetitions = 2;
  Start(ConsoleFormat::kText, false);
  const std::size_t before = output_.Text().size();
  const Finished one = Measured("Race/Horse");
  ReportAll({one, one});
  EXPECT_EQ(output_.Text().substr(before),
            "\nRace/Horse\n"
            "#  time ms  distance\n"
            "1    4.000     12.00\n"
            "2    4.000     12.00\n");
}

TEST_F(ShownRowTest, ACounterShowsItsInterval) {
  Finished one = Measured("Race/Horse");
  one.row.counters["furlongs"].interval = {11.99, 12.07};
  one.row.time_ms.interval = {3.5, 4.45};
  EXPECT_EQ(Shown(one),
            "\nRace/Horse\n"
            "time ms         distance\n"
            "    4.0 ±0.5       12.00 ±0.07\n");
}

TEST_F(ShownRowTest, NoisyRowsAreCountedAtTheEnd) {
  RunReporter& reporter = Make(ConsoleFormat::kText, false, 0);
  reporter.ReportContext({});
  Report(Measured("Race/Horse"));
  Report(InState(Measured("Race/Mule"), RowState::kNoisy, "known to ±50 % only"));
  reporter.Finalize();
  EXPECT_NE(output_.Text().find("1 of 2 rows is noisy: "), std::string::npos) << output_.Text();
}

TEST_F(ShownRowTest, TimesAreShownInTheRequestedUnit) {
  console_.unit = {"us"};
  EXPECT_EQ(Shown(Measured("Walk/Horse")), "\nWalk/Horse\ntime us\n   4000\n");
}

TEST_F(ShownRowTest, ATerminalShowsTheRunningRow) {
  console_.screen = {.columns = 40, .is_terminal = true, .has_colour = false};
  console_.planned = {"Race/Horse", "Race/Donkey"};
  RunReporter& reporter = Start(ConsoleFormat::kText, false);
  reporter.console()->Begin("Race/Horse");
  Report(Measured("Race/Horse"));
  reporter.console()->Begin("Race/Donkey/with_a_name_that_is_far_too_long");
  // At once, and again each second with what is left then.
  const std::string line = "\r\033[K[2/2] Race/Donkey/w...  50 %  0:00 left\r";
  const std::size_t first = output_.Text().find(line);
  ASSERT_NE(first, std::string::npos) << output_.Text();
  const auto deadline = std::chrono::steady_clock::now() + 10s;
  while (output_.Text().find(line, first + 1) == std::string::npos &&
         std::chrono::steady_clock::now() < deadline)
    std::this_thread::sleep_for(50ms);
  EXPECT_NE(output_.Text().find(line, first + 1), std::string::npos) << output_.Text();
  reporter.console()->HideProgress();
  EXPECT_TRUE(output_.Text().ends_with("\r\033[K"));
}

TEST_F(ShownRowTest, CsvHasAColumnForEachCounterOfAnyRow) {
  RunReporter& reporter = Start(ConsoleFormat::kCsv, false);
  Finished other = InState(Measured("Walk/Horse"), RowState::kInvalid, "the \"grey\" one");
  other.row.counters.erase("furlongs");
  other.row.counters["cv"] = 0.5;
  Finished horse = Measured("Race/Horse");
  horse.row.counters["furlongs"].interval = {11.5, 12.5};
  Report(horse);
  Report(other);
  Report(Failed(Measured("Race/Donkey"), "it fell"));
  reporter.Finalize();
  EXPECT_EQ(output_.Text(),
            "name,real_time,time_unit,state,reason,cv,furlongs,furlongs_high,furlongs_low\n"
            "Race/Horse,4,ms,ok,\"\",,12,12.5,11.5\n"
            "Walk/Horse,4,ms,invalid,\"the \"\"grey\"\" one\",0.5,,,\n"
            "Race/Donkey,,ms,error,\"it fell\",,,,\n");
}

TEST_F(ShownRowTest, ARunThatEndsEarlyShowsWhatIsBelowItsRows) {
  RunReporter& reporter = Start(ConsoleFormat::kText, false);
  Report(InState(Measured("Race/Horse"), RowState::kNoisy, ""));
  reporter.Stop();
  reporter.Abandon("it rains");
  EXPECT_NE(output_.Text().find("\n1 of 1 row is noisy: "), std::string::npos);
}

}  // namespace
}  // namespace overlapbench
