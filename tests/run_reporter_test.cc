// The reporting of finished rows: in the result file, which is valid JSON after each of them, and
// on the console. Also rows that Google Benchmark runs, from their benchmark to the file.
#include "report/run_reporter.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <future>
#include <iostream>
#include <limits>
#include <memory>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "child.h"
#include "fake_workload.h"
#include "fixtures/schedule_record.h"
#include "fixtures/timed_fixture.h"
#include "google_run.h"
#include "json.h"
#include "ranks/watchdog.h"
#include "test_ranks.h"

namespace overlapbench {
namespace {

using std::chrono_literals::operator""ms;
using std::chrono_literals::operator""s;

// Captures standard output as long as it exists.
class TakenOutput {
 public:
  TakenOutput() : before_(std::cout.rdbuf(taken_.rdbuf())) {}
  ~TakenOutput() { std::cout.rdbuf(before_); }
  TakenOutput(const TakenOutput&) = delete;
  TakenOutput& operator=(const TakenOutput&) = delete;
  [[nodiscard]] std::string Text() const { return taken_.str(); }
  [[nodiscard]] std::streambuf* before() const { return before_; }

 private:
  std::ostringstream taken_;
  std::streambuf* before_;
};

class RunReporterTest : public testing::Test {
 public:
  ~RunReporterTest() override { std::filesystem::remove_all(folder_); }

 protected:
  RunReporterTest() {
    std::filesystem::create_directories(folder_);
    table_.Add(Counter{"furlongs", "", Better::kHigher, Range::kPositive, "distance", "of a race"});
    table_.Add(FamilyText{"Race", "Horses.", {"furlongs", "GBps", "nothing", "cv", "skew_us"}});
  }
  RunReporter& Make(ConsoleFormat format, bool with_file, int rank) {
    progress_ = std::make_unique<Progress>(rank, 2);
    auto file = with_file ? std::make_unique<ResultFile>(path()) : nullptr;
    reporter_ = std::make_unique<RunReporter>(
        *progress_, finished_, table_, RunReporter::Options{format, console_}, std::move(file));
    return *reporter_;
  }
  void Report(const Finished& one) { ReportAll({one}); }
  // The repetitions of a row.
  void ReportAll(const std::vector<Finished>& repetitions) {
    std::vector<GoogleRun> runs;
    for (const Finished& one : repetitions) {
      finished_.Add(one.row);
      runs.push_back(one.run);
    }
    reporter_->ReportRuns(runs);
  }
  // Like Make, and reports the context, as Google Benchmark does first.
  RunReporter& Start(ConsoleFormat format = ConsoleFormat::kText, bool with_file = true,
                     int rank = 0) {
    RunReporter& reporter = Make(format, with_file, rank);
    reporter.ReportContext(benchmark::BenchmarkReporter::Context());
    return reporter;
  }

  [[nodiscard]] std::string path() const { return folder_ / "result.json"; }
  [[nodiscard]] std::string partial_path() const { return path() + ".partial"; }
  static Json ReadFile(const std::string& path) {
    std::ifstream file(path);
    std::stringstream text;
    text << file.rdbuf();
    return JsonReader::Read(text.str());
  }
  // The row that is written of a run.
  Json Written(const Finished& one) {
    RunReporter& reporter = Start();
    Report(one);
    reporter.Finalize();
    return ReadFile(path()).At("benchmarks").items.at(0);
  }
  // What the console shows of it.
  std::string Shown(const Finished& one) {
    Start(ConsoleFormat::kText, false);
    const std::size_t before = output_.Text().size();
    Report(one);
    return output_.Text().substr(before);
  }

  TakenOutput output_;
  FinishedRows finished_;
  CounterTable table_;
  ConsoleOptions console_ = {.planned = 7};

 private:
  std::filesystem::path folder_ =
      std::filesystem::path(testing::TempDir()) / ("run_reporter_" + std::to_string(getpid()));
  std::unique_ptr<Progress> progress_;
  std::unique_ptr<RunReporter> reporter_;
};

// ---- The file

TEST_F(RunReporterTest, TheFileIsValidAfterEveryRowAndSaysThatItIsIncompleteUntilTheEnd) {
  RunReporter& reporter = Start();
  EXPECT_FALSE(std::filesystem::exists(path()));
  for (std::size_t rows = 0; rows < 4; ++rows) {
    const Finished one = Measured("Race/Horse/laps:" + std::to_string(rows));
    Report(rows == 1 ? Failed(one, "it fell") : one);
    const Json document = ReadFile(path());
    EXPECT_EQ(document.At("benchmarks").items.size(), rows + 1);
    EXPECT_EQ(document.At("incomplete").text, "the run is still going, or was killed");
    EXPECT_TRUE(document.Has("context"));
    EXPECT_EQ(document.At("counters").items.size(), table_.counters().size());
    EXPECT_EQ(document.At("families").items.size(), 1U);
  }
  reporter.Finalize();
  const Json document = ReadFile(path());
  EXPECT_EQ(document.At("benchmarks").items.size(), 4U);
  EXPECT_FALSE(document.Has("incomplete"));
  EXPECT_EQ(document.At("counters").items.back().At("name").text, "furlongs");
  EXPECT_EQ(document.At("families").items[0].At("name").text, "Race");
  EXPECT_FALSE(std::filesystem::exists(partial_path()));
}

TEST_F(RunReporterTest, ARowHasItsNameItsTimesItsCountersAndItsState) {
  const Json row = Written(InState(Measured("Race/Horse/laps:2"), RowState::kOk, ""));
  EXPECT_EQ(row.At("name").text, "Race/Horse/laps:2");
  EXPECT_EQ(row.At("run_name").text, "Race/Horse/laps:2");
  EXPECT_DOUBLE_EQ(row.At("real_time").number, 4);
  EXPECT_EQ(row.At("time_unit").text, "ms");
  EXPECT_DOUBLE_EQ(row.At("furlongs").number, 12);
  EXPECT_EQ(row.At("state").text, "ok");
  EXPECT_EQ(row.At("reason").text, "");
  EXPECT_FALSE(row.Has("label"));
}

TEST_F(RunReporterTest, TheStateIsTextAndTheReasonIsNotALabel) {
  const struct {
    RowState state;
    const char* text;
  } states[] = {{RowState::kOk, "ok"},
                {RowState::kSerialized, "serialized"},
                {RowState::kInvalid, "invalid"}};
  for (const auto& [state, text] : states) {
    const Json row =
        Written(InState(Measured("Race/Horse"), state, "the \"grey\" one \\ slipped\ntwice"));
    EXPECT_EQ(row.At("state").kind, Json::Kind::kText);
    EXPECT_EQ(row.At("state").text, text);
    EXPECT_EQ(row.At("reason").text, "the \"grey\" one \\ slipped twice");
    EXPECT_FALSE(row.Has("label"));
  }
}

TEST_F(RunReporterTest, AnErrorRowHasItsStateAndReasonToo) {
  const Json row = Written(Failed(Measured("Race/Horse"), "it \"fell\""));
  EXPECT_EQ(row.At("state").text, "error");
  EXPECT_EQ(row.At("reason").text, "it \"fell\"");
  EXPECT_EQ(row.At("error_occurred").number, 1);
  EXPECT_EQ(row.At("error_message").text, "it \"fell\"");
}

// Google Benchmark's own rows for repetitions. Its coefficient of variation of a counter that is
// always 0 is no number, and JSON has none for it.
TEST_F(RunReporterTest, AnAggregateIsWrittenFromItsRun) {
  RunReporter& reporter = Start();
  GoogleRun cv = Measured("Race/Horse").run;
  cv.run_type = GoogleRun::RT_Aggregate;
  cv.aggregate_name = "cv";
  cv.aggregate_unit = benchmark::StatisticUnit::kPercentage;
  cv.real_accumulated_time = 0.25;
  cv.counters["furlongs"] = 0.5;
  cv.counters["skew_us"] = std::numeric_limits<double>::quiet_NaN();
  reporter.ReportRuns({cv});
  reporter.Finalize();
  const Json row = ReadFile(path()).At("benchmarks").items.at(0);
  EXPECT_EQ(row.At("name").text, "Race/Horse_cv");
  EXPECT_EQ(row.At("run_name").text, "Race/Horse");
  EXPECT_EQ(row.At("run_type").text, "aggregate");
  EXPECT_EQ(row.At("aggregate_unit").text, "percentage");
  EXPECT_EQ(row.At("real_time").number, 0.25) << "a share has no unit";
  EXPECT_EQ(row.At("furlongs").number, 0.5);
  for (const char* member : {"skew_us", "state", "reason", "label", "repetition_index"})
    EXPECT_FALSE(row.Has(member)) << member;
}

// As Google Benchmark 1.7.1 and 1.8.3 write the members that they know.
TEST_F(RunReporterTest, RowsHaveTheFormOfGoogleBenchmark) {
  Finished one = Measured("Race/Horse");
  one.row.time_ms.interval = {3, 5};
  one.row.reason = "a finding";
  const Finished failed = Failed(Measured("Race/Mule"), "it fell");
  ResultJson json(table_);
  const std::string head = R"(
      "family_index": 0,
      "per_family_instance_index": 0,
      "run_name": "Race/Horse",
      "run_type": "iteration",
      "repetitions": 1,
      "repetition_index": 0,
      "threads": 1,
)";
  EXPECT_EQ(json.Runs({one.run}, {one.row}), R"(    {
      "name": "Race/Horse",)" + head + R"(      "iterations": 2,
      "real_time": 4.0000000000000000e+00,
      "cpu_time": 0.0000000000000000e+00,
      "time_unit": "ms",
      "furlongs": 1.2000000000000000e+01,
      "time_high_ms": 5.0000000000000000e+00,
      "time_low_ms": 3.0000000000000000e+00,
      "state": "ok",
      "reason": "a finding"
    })");
  EXPECT_TRUE(json.Runs({failed.run}, {failed.row}).starts_with(",\n    {\n"));
}

TEST_F(RunReporterTest, ARowMayCarryItsSchedules) {
  Finished one = Measured("Race/Horse");
  ScheduleRecord record{.ranks = 4, .hosts = 2, .transport = "copy"};
  record.works = {{.name = "sum",
                   .work_class = WorkClass::kComm,
                   .collective = "AllReduce",
                   .cost = {.wire_bytes = 1024, .bus_factor = 1.5},
                   .sms = 24},
                  {.name = "multiply", .cost = {.flops = 8e9}}};
  record.runs = {{.name = "pattern",
                  .lanes = {{.name = "comm", .priority = 1}, {.name = "comp", .rank = 3}},
                  .steps = {{1, 1, {.part = {1, 2}}},
                            {0, 0, {.after = {0}, .host_after = {0}, .engine = "engine"}}},
                  .time_ms = Figure(2, Interval{1, 3}),
                  .enqueue_ms = 0.5,
                  .lanes_ms = {{0.25, 1}, {0, 2}}}};
  one.row.schedules = std::make_shared<const ScheduleRecord>(record);
  const Json text = JsonReader::Read(ResultJson(table_).Runs({one.run}, {one.row}));
  const Json& schedules = text.At("schedules");
  EXPECT_EQ(schedules.At("version").number, 1);
  EXPECT_EQ(schedules.At("ranks").number, 4);
  EXPECT_EQ(schedules.At("hosts").number, 2);
  EXPECT_EQ(schedules.At("transport").text, "copy");
  const Json& sum = schedules.At("works").items.at(0);
  EXPECT_EQ(sum.At("class").text, "COMM");
  EXPECT_EQ(sum.At("collective").text, "AllReduce");
  EXPECT_EQ(sum.At("wire_bytes").number, 1024);
  EXPECT_EQ(sum.At("sms").number, 24);
  EXPECT_FALSE(schedules.At("works").items.at(1).Has("collective"));
  const Json& run = schedules.At("runs").items.at(0);
  EXPECT_EQ(run.At("ms").number, 2);
  EXPECT_EQ(run.At("ms_high").number, 3);
  EXPECT_EQ(run.At("lanes").items.at(1).At("rank").number, 3);
  EXPECT_EQ(run.At("lanes_ms").items.at(0).items.at(0).number, 0.25);
  const auto& waiting = run.At("steps").items.at(1).items;
  EXPECT_EQ(waiting.at(4).items.at(0).number, 0);
  EXPECT_EQ(waiting.at(5).At("engine").text, "engine");
  EXPECT_EQ(run.At("steps").items.at(0).items.at(3).number, 2) << "parts";
}

TEST_F(RunReporterTest, ARowMayHaveNoUndefinedCounters) {
  Start();
  Finished one = Measured("Race/Horse");
  one.row.counters["hands"] = 16;
  try {
    Report(one);
    FAIL() << "a counter that nobody defines was taken";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "Race/Horse reports 'hands', which its family does not define");
  }
}

TEST_F(RunReporterTest, OtherRanksNeitherWriteNorPrint) {
  RunReporter& reporter = Start(ConsoleFormat::kJson, false, 1);
  Report(Measured("Race/Horse"));
  reporter.Finalize();
  reporter.Abandon("it rains");
  EXPECT_EQ(output_.Text(), "");
}

TEST_F(RunReporterTest, TheConsoleTakesTheSameJson) {
  RunReporter& reporter = Start(ConsoleFormat::kJson);
  Report(InState(Measured("Race/Horse"), RowState::kSerialized, "it waited"));
  reporter.Finalize();
  const Json document = JsonReader::Read(output_.Text());
  EXPECT_EQ(document.At("benchmarks").items.at(0).At("state").text, "serialized");
  EXPECT_TRUE(document.Has("counters"));
  EXPECT_FALSE(document.Has("incomplete"));
}

TEST_F(RunReporterTest, TextsThatAreNotUtf8OrNotPrintableAreMadeSo) {
  RunReporter& reporter = Start();
  Report(Failed(Measured("Race/Horse"), "a c\xe2\x82 cut \x1b[31mtext\x01"));
  reporter.Finalize();
  const Json row = ReadFile(path()).At("benchmarks").items.at(0);
  EXPECT_EQ(row.At("error_message").text, "a c\xef\xbf\xbd cut  [31mtext ");
  EXPECT_EQ(row.At("reason").text, "a c\xef\xbf\xbd cut  [31mtext ");
}

// ---- A run that ends early

TEST_F(RunReporterTest, ARunThatEndsEarlyKeepsItsRowsAndSaysWhy) {
  RunReporter& reporter = Start();
  Report(Measured("Race/Horse"));
  reporter.Stop();
  Report(Measured("Race/Donkey"));
  testing::internal::CaptureStderr();
  reporter.Abandon("the \"fence\" broke");
  EXPECT_NE(testing::internal::GetCapturedStderr().find("kept 1 finished rows"), std::string::npos);
  reporter.Finalize();
  const Json document = ReadFile(path());
  ASSERT_EQ(document.At("benchmarks").items.size(), 1U);
  EXPECT_EQ(document.At("benchmarks").items[0].At("name").text, "Race/Horse");
  EXPECT_EQ(document.At("incomplete").text, "the \"fence\" broke");
  EXPECT_EQ(output_.Text().find("Donkey"), std::string::npos);
}

TEST_F(RunReporterTest, ARunThatEndsBeforeItsFirstRowLeavesNoFile) {
  RunReporter& reporter = Start();
  reporter.Stop();
  reporter.Abandon("it rains");
  EXPECT_FALSE(std::filesystem::exists(path()));
  EXPECT_FALSE(std::filesystem::exists(partial_path()));
}

// The main thread waits for standard output inside of it, as for a full pipe.
TEST_F(RunReporterTest, AStuckScreenDoesNotKeepTheFileFromBeingClosed) {
  class StuckBuffer : public std::streambuf {
   public:
    std::promise<void> entered, free;

   protected:
    std::streamsize xsputn(const char* /*text*/, std::streamsize size) override {
      entered.set_value();
      free.get_future().wait();
      return size;
    }
  } stuck;
  RunReporter& reporter = Start(ConsoleFormat::kJson);
  std::streambuf* const before = std::cout.rdbuf(&stuck);
  std::thread main([&] { Report(Measured("Race/Horse")); });
  stuck.entered.get_future().wait();
  reporter.Stop();
  testing::internal::CaptureStderr();
  reporter.Abandon("it is over");
  const std::string said = testing::internal::GetCapturedStderr();
  stuck.free.set_value();
  main.join();
  std::cout.rdbuf(before);
  std::cout.clear();
  EXPECT_NE(said.find("kept 1 finished rows"), std::string::npos) << said;
  EXPECT_EQ(ReadFile(path()).At("incomplete").text, "it is over");
}

// As on a full disk. The file, if there is one, is complete.
TEST_F(RunReporterTest, AResultThatStandardOutputDoesNotTakeIsAnError) {
  for (const auto format : {ConsoleFormat::kText, ConsoleFormat::kJson, ConsoleFormat::kCsv}) {
    for (const bool with_file : {false, true}) {
      RunReporter& reporter = Start(format, with_file);
      std::cout.setstate(std::ios::badbit);
      const auto run = [&] {
        Report(Measured("Race/Horse"));
        EXPECT_TRUE(with_file || format == ConsoleFormat::kCsv) << "it would measure in vain";
        reporter.Finalize();
      };
      EXPECT_THROW(run(), Error);
      std::cout.clear();
      EXPECT_TRUE(!with_file || !ReadFile(path()).Has("incomplete"));
    }
  }
}

// Where nothing else keeps the rows. The launcher sends the same signal if it notices first.
TEST_F(RunReporterTest, ARunWhoseReaderHasGoneEndsItself) {
  const auto end = [this](bool is_read, bool with_file) {
    std::array<int, 2> ends{};
    EXPECT_EQ(pipe2(ends.data(), O_CLOEXEC), 0);
    Descriptor reading(ends[0]);
    if (!is_read) reading = Descriptor();
    Child child(
        [&] {
          std::signal(SIGPIPE, SIG_IGN);
          std::cout.rdbuf(output_.before());
          RunReporter& reporter = Start(ConsoleFormat::kJson, with_file);
          Report(Measured("Race/Horse"));
          reporter.Finalize();
          return 0;
        },
        Descriptor(ends[1]));
    return child.End();
  };
  EXPECT_EQ(end(false, false), 128 + Watchdog::kReaderIsGone);
  EXPECT_EQ(end(false, true), 0);
  EXPECT_EQ(end(true, false), 0);
}

TEST_F(RunReporterTest, ARunThatEndsBeforeItsFirstRowShowsNothing) {
  RunReporter& reporter = Start(ConsoleFormat::kCsv, false);
  reporter.Stop();
  reporter.Abandon("it rains");
  EXPECT_EQ(output_.Text(), "");
}

TEST_F(RunReporterTest, JsonOnTheConsoleIsClosedToo) {
  RunReporter& reporter = Start(ConsoleFormat::kJson, false);
  Report(Measured("Race/Horse"));
  reporter.Stop();
  reporter.Abandon("it rains");
  const Json document = JsonReader::Read(output_.Text());
  EXPECT_EQ(document.At("benchmarks").items.size(), 1U);
  EXPECT_EQ(document.At("incomplete").text, "it rains");
}

// ---- The console

TEST_F(RunReporterTest, ARowShowsTheLeadCountersOfItsFamily) {
  Finished one = Measured("Race/Horse/laps:2");
  one.row.counters["cv"] = 0.5;
  one.row.counters["GBps"] = 312.44;
  one.row.counters["skew_us"] = 7;  // a fourth
  EXPECT_EQ(Shown(one),
            "[1/7] Race/Horse/laps:2\n"
            "        4.000 ms  distance 12.00, bandwidth 312.4 GB/s, cv 0.50\n");
}

TEST_F(RunReporterTest, ARowOfAnotherFamilyShowsItsTime) {
  EXPECT_EQ(Shown(Measured("Walk/Horse")), "[1/7] Walk/Horse\n        4.000 ms\n");
}

TEST_F(RunReporterTest, ARowShowsItsStateAndReason) {
  const auto remark = [this](RowState state, const char* reason) {
    const std::string shown = Shown(InState(Measured("Race/Horse"), state, reason));
    const std::string before = "distance 12.00";
    const auto begin = shown.find(before) + before.size();
    return shown.substr(begin, shown.size() - begin - 1);
  };
  EXPECT_EQ(remark(RowState::kOk, ""), "");
  EXPECT_EQ(remark(RowState::kOk, "a finding"), "  a finding");
  EXPECT_EQ(remark(RowState::kSerialized, "it waited"), "  serialized: it waited");
  EXPECT_EQ(remark(RowState::kInvalid, "it slipped"), "  invalid: it slipped");
  EXPECT_EQ(Shown(Failed(Measured("Race/Horse"), "it fell")),
            "[1/7] Race/Horse\n        ERROR: it fell\n");
}

TEST_F(RunReporterTest, TheSlowestRankIsNamedIfKnown) {
  Finished one = Measured("Race/Horse");
  one.row.counters["slowest_rank"] = 3;
  EXPECT_NE(Shown(one).find("distance 12.00, slowest rank 3\n"), std::string::npos);
}

TEST_F(RunReporterTest, RepetitionsAreCountedBelowTheirName) {
  console_.repetitions = 2;
  Start(ConsoleFormat::kText, false);
  const std::size_t before = output_.Text().size();
  const Finished one = Measured("Race/Horse");
  ReportAll({one, one});
  EXPECT_EQ(output_.Text().substr(before),
            "[1/7] Race/Horse\n"
            "        1 of 2: 4.000 ms  distance 12.00\n"
            "        2 of 2: 4.000 ms  distance 12.00\n");
  EXPECT_NE(output_.Text().find("7 benchmarks, 2 repetitions each; "), std::string::npos);
}

TEST_F(RunReporterTest, ACounterShowsItsInterval) {
  Finished one = Measured("Race/Horse");
  one.row.counters["furlongs"].interval = {11.99, 12.07};
  one.row.time_ms.interval = {3.5, 4.45};
  EXPECT_EQ(Shown(one), "[1/7] Race/Horse\n        4.000 ±0.50 ms  distance 12.00 -0.01 +0.07\n");
}

TEST_F(RunReporterTest, NoisyRowsAreCountedAtTheEnd) {
  RunReporter& reporter = Make(ConsoleFormat::kText, false, 0);
  reporter.ReportContext({});
  Report(Measured("Race/Horse"));
  Report(InState(Measured("Race/Mule"), RowState::kNoisy, "known to ±50 % only"));
  reporter.Finalize();
  EXPECT_NE(output_.Text().find("1 of 2 rows are noisy and say why: "), std::string::npos)
      << output_.Text();
}

TEST_F(RunReporterTest, TimesAreShownInTheRequestedUnit) {
  console_.unit = {"us"};
  EXPECT_EQ(Shown(Measured("Walk/Horse")), "[1/7] Walk/Horse\n        4000 us\n");
}

TEST_F(RunReporterTest, ATerminalBreaksNamesAndTextsAndHasColours) {
  console_.screen = {.columns = 40, .is_terminal = false, .has_colour = true};
  const Finished one = InState(Measured("Race/Horse/laps:2"), RowState::kInvalid, "it slipped");
  EXPECT_EQ(Shown(one),
            "[1/7] \033[32mRace/Horse/laps:2\033[0m\n"
            "        4.000 ms  distance 12.00  \033[31minvalid\033[0m: it slipped\n");
  console_.screen = {.columns = 40, .is_terminal = true, .has_colour = false};
  const std::string shown = Shown(InState(Measured("Race/Horse/laps:2/ground:soft/length:3"),
                                          RowState::kInvalid, "it slipped in the second lap"));
  EXPECT_NE(shown.find("[1/7] Race/Horse/laps:2/ground:soft/\n"
                       "        length:3\n"
                       "        4.000 ms  distance 12.00\n"
                       "        invalid: it slipped in the\n"
                       "        second lap\n"),
            std::string::npos)
      << shown;
}

TEST_F(RunReporterTest, ATerminalShowsTheRunningRow) {
  console_.screen = {.columns = 40, .is_terminal = true, .has_colour = false};
  console_.planned = 2;
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

TEST_F(RunReporterTest, CountersStandInColumnsOnRequest) {
  console_.tabular = true;
  Start(ConsoleFormat::kText, false);
  const std::size_t before = output_.Text().size();
  Report(Measured("Race/Horse"));
  Report(InState(Measured("Race/Donkey"), RowState::kInvalid, "it slipped"));
  Report(Measured("Walk/Horse"));
  EXPECT_EQ(output_.Text().substr(before),
            "[1/7] Race/Horse\n"
            "    time ms   distance\n"
            "      4.000      12.00\n"
            "[2/7] Race/Donkey\n"
            "      4.000      12.00\n"
            "        invalid: it slipped\n"
            "[3/7] Walk/Horse\n"
            "    time ms\n"
            "      4.000\n");
}

TEST_F(RunReporterTest, ColumnsThatDoNotFitStandBelowEachOther) {
  console_.tabular = true;
  console_.screen.columns = 20;
  Start(ConsoleFormat::kText, false);
  const std::size_t before = output_.Text().size();
  Report(Measured("Race/Horse"));
  EXPECT_EQ(output_.Text().substr(before),
            "[1/7] Race/Horse\n"
            "    time ms\n"
            "   distance\n"
            "      4.000\n"
            "      12.00\n");
}

TEST_F(RunReporterTest, CsvHasAColumnForEachCounterOfAnyRow) {
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

TEST_F(RunReporterTest, ARunThatEndsEarlyShowsTheTablesOfItsRows) {
  RunReporter& reporter = Start(ConsoleFormat::kText, false);
  Report(Measured("Overlap/Horse+Donkey"));
  reporter.Stop();
  reporter.Abandon("it rains");
  EXPECT_NE(output_.Text().find("\nOverlap pairs\n"), std::string::npos);
}

// ---- From a benchmark to its row

// A benchmark whose only work takes the host 5 ms, and what it reports.
class MeasuredRowTest : public RunReporterTest {
 protected:
  MeasuredRowTest() {
    slow_.enqueue = [](Stream&) { std::this_thread::sleep_for(kSlow); };
    row_.name = "Race/Horse/laps:2";
    row_.settings = row_.settings.With("cache", "warm").With("cadence", "isolated");
    row_.runs = [this](const Settings&) {
      const WorkloadSpec spec = FakeSpec("Horse", WorkClass::kCompute, slow_);
      return std::vector<overlapbench::Run>{SoloRun(MakeWork(spec, {}), false)};
    };
    row_.report = [this](const Measurement&, Counters& counters) {
      counters["furlongs"] = 12;
      return remark_;
    };
  }

  // The row of a run with these flags.
  Json Run(const std::vector<std::string>& flags = {}) {
    Options options = ParseOptions(flags);
    options.budget = 1ms;
    const auto device = OpenHostDevice(1);
    Suite suite{{*device, TestRanks()}, options};
    benchmark::ClearRegisteredBenchmarks();
    Register(suite, row_);
    Progress progress(0, 1);
    RunReporter reporter(progress, suite.finished, table_, {},
                         std::make_unique<ResultFile>(path()));
    benchmark::RunSpecifiedBenchmarks(&reporter, ".");
    benchmark::ClearRegisteredBenchmarks();
    return ReadFile(path()).At("benchmarks").items.at(0);
  }

  static constexpr auto kSlow = 5ms;
  Behaviour slow_;
  overlapbench::Benchmark row_;
  Remark remark_;
};

// Noise makes no difference to a control.
TEST_F(MeasuredRowTest, HasTheRemarkOfItsReport) {
  remark_ = Remark::Control("it waited");
  const Json control = Run();
  EXPECT_EQ(control.At("name").text, "Race/Horse/laps:2");
  EXPECT_EQ(control.At("state").text, "control");
  EXPECT_EQ(control.At("reason").text, "it waited");
  EXPECT_EQ(control.At("valid").number, 1);
  EXPECT_DOUBLE_EQ(control.At("furlongs").number, 12);
  remark_ = Remark::Invalid("it slipped");
  const Json invalid = Run();
  EXPECT_EQ(invalid.At("state").text, "invalid");
  EXPECT_EQ(invalid.At("reason").text, "it slipped");
  EXPECT_EQ(invalid.At("valid").number, 0);
}

TEST_F(MeasuredRowTest, IsInvalidIfAKnobHadNoEffect) {
  slow_.knob_fault = "sm_target:8 changed no grid";
  remark_ = Remark::Finding("a finding");
  EXPECT_EQ(Run().At("reason").text, "sm_target:8 changed no grid");
  EXPECT_EQ(Run().At("state").text, "invalid");
}

TEST_F(MeasuredRowTest, IsAnErrorIfItsResultIsWrong) {
  slow_.fault = [] { return "element 3 is 1, expected 2"; };
  const Json row = Run();
  EXPECT_EQ(row.At("state").text, "error");
  EXPECT_EQ(row.At("reason").text,
            "wrong result of COMP 'Horse' in run 'Horse': element 3 is 1, expected 2");
  EXPECT_FALSE(row.Has("furlongs"));
}

TEST_F(MeasuredRowTest, HasItsTimesInTheRequestedUnit) {
  const struct {
    const char* unit;
    double in_ms;
  } units[] = {{"ns", 1e-6}, {"us", 1e-3}, {"ms", 1}, {"s", 1e3}};
  for (const auto& [unit, in_ms] : units) {
    const Json row = Run({std::string("--benchmark_time_unit=") + unit});
    EXPECT_EQ(row.At("time_unit").text, unit);
    const double time_ms = row.At("real_time").number * in_ms;
    EXPECT_GE(time_ms, 5) << unit;
    EXPECT_LT(time_ms, 5000) << unit;  // units differ a thousandfold
  }
  EXPECT_EQ(Run().At("time_unit").text, "ms");
}

}  // namespace
}  // namespace overlapbench
