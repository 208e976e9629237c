// The reporting of finished rows in the result file, which is valid JSON after each of them, and
// what is kept and shown of a run that ends early.
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
#include "fixtures/schedule_record.h"
#include "ranks/watchdog.h"
#include "run_reporters.h"

namespace overlapbench {
namespace {

TEST_F(RunReporterTest, AFileThatWillBeRemovedIsNotMentioned) {
  for (const bool keeps : {true, false}) {
    keeps_file_ = keeps;
    const std::size_t before = output_.Text().size();
    RunReporter& reporter = Start();
    Report(Measured("Race/Horse"));
    reporter.Finalize();
    const std::string shown = output_.Text().substr(before);
    EXPECT_EQ(shown.find("written: " + path()) != std::string::npos, keeps) << shown;
    EXPECT_TRUE(std::filesystem::exists(path()));
  }
}

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
  cv.cpu_accumulated_time = 0.125;
  cv.counters["furlongs"] = 0.5;
  cv.counters["skew_us"] = std::numeric_limits<double>::quiet_NaN();
  reporter.ReportRuns({cv});
  reporter.Finalize();
  const Json row = ReadFile(path()).At("benchmarks").items.at(0);
  EXPECT_EQ(row.At("name").text, "Race/Horse_cv");
  EXPECT_EQ(row.At("run_name").text, "Race/Horse");
  EXPECT_EQ(row.At("run_type").text, "aggregate");
  EXPECT_EQ(row.At("aggregate_unit").text, "percentage");
  EXPECT_EQ(row.At("aggregate_name").text, "cv");
  EXPECT_EQ(row.At("real_time").number, 0.25) << "a share has no unit";
  EXPECT_EQ(row.At("cpu_time").number, 0.125);
  EXPECT_EQ(row.At("furlongs").number, 0.5);
  for (const char* member : {"skew_us", "state", "reason", "label", "repetition_index"})
    EXPECT_FALSE(row.Has(member)) << member;
  GoogleRun median = Measured("Race/Horse").run;
  median.run_type = GoogleRun::RT_Aggregate;
  median.aggregate_name = "median";
  median.aggregate_unit = benchmark::StatisticUnit::kTime;
  const Json time = JsonReader::Read(ResultJson(table_).Runs({median}, {}));
  EXPECT_EQ(time.At("aggregate_unit").text, "time");
  EXPECT_EQ(time.At("real_time").number, 4);
}

// The aggregates of a row follow its runs.
TEST_F(RunReporterTest, EachRunHasItsOwnRow) {
  const Finished horse = Measured("Race/Horse");
  const Finished mule = InState(Measured("Race/Mule"), RowState::kNoisy, "");
  GoogleRun mean = horse.run;
  mean.run_type = GoogleRun::RT_Aggregate;
  const std::string text =
      ResultJson(table_).Runs({horse.run, mean, mule.run}, {horse.row, mule.row});
  const Json rows = JsonReader::Read("[" + text + "]");
  EXPECT_EQ(rows.items.at(0).At("state").text, "ok");
  EXPECT_FALSE(rows.items.at(1).Has("state"));
  EXPECT_EQ(rows.items.at(2).At("state").text, "noisy");
}

// As Google Benchmark 1.7.1 and 1.8.3 write the members that they know.
TEST_F(RunReporterTest, RowsHaveTheFormOfGoogleBenchmark) {
  Finished one = Measured("Race/Horse");
  one.row.time_ms.interval = {3, 5};
  one.row.reason = "a finding";
  one.run.family_index = 3;
  one.run.per_family_instance_index = 4;
  one.run.repetitions = 6;
  one.run.repetition_index = 5;
  one.run.threads = 7;
  one.run.cpu_accumulated_time = 0.001;
  const Finished failed = Failed(Measured("Race/Mule"), "it fell");
  ResultJson json(table_);
  const std::string head = R"(
      "family_index": 3,
      "per_family_instance_index": 4,
      "run_name": "Race/Horse",
      "run_type": "iteration",
      "repetitions": 6,
      "repetition_index": 5,
      "threads": 7,
)";
  EXPECT_EQ(json.Runs({one.run}, {one.row}), R"(    {
      "name": "Race/Horse",)" + head + R"(      "iterations": 2,
      "real_time": 4.0000000000000000e+00,
      "cpu_time": 5.0000000000000000e-01,
      "time_unit": "ms",
      "furlongs": 1.2000000000000000e+01,
      "time_high_ms": 5.0000000000000000e+00,
      "time_low_ms": 3.0000000000000000e+00,
      "state": "ok",
      "reason": "a finding"
    })");
  EXPECT_TRUE(json.Runs({failed.run}, {failed.row}).starts_with(",\n    {\n"));
}

// Each member, and the short form of what has its usual value.
TEST_F(RunReporterTest, ARowMayCarryItsSchedules) {
  Finished one = Measured("Race/Horse");
  ScheduleRecord record{.ranks = 4, .hosts = 2, .transport = "copy"};
  record.works = {{.name = "sum",
                   .work_class = WorkClass::kComm,
                   .collective = "AllReduce",
                   .transport = "mpi",
                   .cost = {.moved_bytes = 16,
                            .copied_bytes = 4,
                            .host_bytes = 3,
                            .wire_bytes = 1024,
                            .bus_factor = 1.5},
                   .sms = 24},
                  {.name = "multiply", .cost = {.flops = 8e9}}};
  record.runs = {
      {.name = "alone",
       .is_gated = false,
       .lanes = {{.name = "host", .on_host = true}},
       .steps = {{1, 0, {}}}},
      {.name = "pattern",
       .lanes = {{.name = "comm", .priority = 1, .sms = 8}, {.name = "comp", .rank = 0}},
       .steps = {{1, 1, {.part = {1, 3}}},
                 {0, 0, {.after = {0, 2}, .host_after = {0}, .other_end = 5, .engine = "link"}}},
       .time_ms = Figure(2, Interval{1, 3}),
       .enqueue_ms = 0.5,
       .lanes_ms = {{0.25, 1}, {0, 2}}}};
  one.row.schedules = std::make_shared<const ScheduleRecord>(record);
  const std::string text = ResultJson(table_).Runs({one.run}, {one.row});
  const std::string member = "\"schedules\": ";
  const auto begin = text.find(member) + member.size();
  EXPECT_EQ(
      text.substr(begin, text.find('\n', begin) - begin),
      R"({"version": 1, "ranks": 4, "hosts": 2, "transport": "copy", "works": [)"
      R"({"name": "sum", "class": "COMM", "collective": "AllReduce", "transport": "mpi", )"
      R"("moved_bytes": 20, "host_bytes": 3, "wire_bytes": 1024, "bus_factor": 1.5, "sms": 24}, )"
      R"({"name": "multiply", "class": "COMP", "flops": 8000000000}], "runs": [)"
      R"({"name": "alone", "gated": false, "lanes": [{"name": "host", "on_host": true}], )"
      R"("steps": [[1, 0, 0, 1, []]]}, )"
      R"({"name": "pattern", "ms": 2.0000000000000000e+00, "ms_low": 1.0000000000000000e+00, )"
      R"("ms_high": 3.0000000000000000e+00, "enqueue_ms": 5.0000000000000000e-01, "lanes": [)"
      R"({"name": "comm", "priority": 1, "sms": 8}, {"name": "comp", "rank": 0}], )"
      R"("lanes_ms": [[0.25, 1], [0, 2]], "steps": [[1, 1, 1, 3, []], [0, 0, 0, 1, [0, 2], )"
      R"({"host_after": [0], "other_end": 5, "engine": "link"}]]}]})");
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
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "overlapbench: kept 1 finished rows, marked incomplete: " + path() + "\n");
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
  testing::internal::CaptureStderr();
  reporter.Abandon("it rains");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
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

TEST_F(RunReporterTest, ATableThatEndsEarlySaysSo) {
  keeps_file_ = false;
  RunReporter& reporter = Start(ConsoleFormat::kCsv);
  Report(Measured("Race/Horse"));
  reporter.Stop();
  testing::internal::CaptureStderr();
  reporter.Abandon("it rains");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "") << "its file will be removed";
  EXPECT_TRUE(output_.Text().starts_with("name,real_time,")) << output_.Text();
  EXPECT_TRUE(output_.Text().ends_with("\n# incomplete: it rains\n")) << output_.Text();
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

}  // namespace
}  // namespace overlapbench
