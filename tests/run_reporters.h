// A reporter of rows of a made-up family, to a file and to standard output, which is captured.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "google_run.h"
#include "json.h"
#include "report/run_reporter.h"

namespace overlapbench {

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
    reporter_ = std::make_unique<RunReporter>(*progress_, finished_, table_,
                                              RunReporter::Options{format, console_, keeps_file_},
                                              std::move(file));
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
  RowTableOptions console_ = {.planned = std::vector<std::string>(7, "Race/Any")};
  bool keeps_file_ = true;

 private:
  std::filesystem::path folder_ =
      std::filesystem::path(testing::TempDir()) / ("run_reporter_" + std::to_string(getpid()));
  std::unique_ptr<Progress> progress_;
  std::unique_ptr<RunReporter> reporter_;
};

}  // namespace overlapbench
