// RunReporter: what a run shows and writes. Rank 0 alone shows; the other ranks take part silently.
//
// On the console every finished row is one line with its place in the run ("[12/60]"), and the
// tables come at the end; or, with --benchmark_format=json, Google Benchmark's JSON. The same JSON
// goes to the file of --benchmark_out, row by row. Until the run has ended, that JSON has the key
// "incomplete" behind its rows, which says why there are no more.
#pragma once

#include <benchmark/benchmark.h>

#include <memory>
#include <mutex>
#include <sstream>
#include <vector>

#include "ranks/progress.h"
#include "report/result_file.h"
#include "report/row.h"

namespace overlapbench {

class RunReporter : public benchmark::BenchmarkReporter {
 public:
  // `planned`: rows to come. `file` may be nullptr.
  RunReporter(Progress& progress, bool json_to_console, int planned,
              std::unique_ptr<ResultFile> file);

  bool ReportContext(const Context& context) override;
  void ReportRuns(const std::vector<Run>& report) override;
  void Finalize() override;
  // The run ends early: from here on the main thread shows and writes nothing more. Then the file
  // is closed with the reason. Both may be called from another thread.
  void Stop();
  void Abandon(const std::string& reason);

 private:
  void ShowPlan() const;
  void ShowRow(const Row& row) const;
  // Writes what json_ has made of `rows` rows. False after Stop: then nothing was written, and
  // nothing more may be shown.
  bool WriteJson(const std::string& ending, int rows = 0);

  Progress& progress_;
  bool is_root_;
  bool json_to_console_;
  int planned_;
  int shown_ = 0;
  std::unique_ptr<ResultFile> file_;
  std::ostringstream json_text_;
  benchmark::JSONReporter json_;
  std::vector<Row> rows_;
  std::mutex ending_;  // guards what follows, against Stop and Abandon
  bool stopped_ = false;
  int finished_rows_ = 0;
};

}  // namespace overlapbench
