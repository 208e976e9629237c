// RunReporter: what a run shows and writes. Rank 0 alone shows; the other ranks take part silently.
//
// On the console every finished row is one line with its place in the run ("[12/60]"), and the
// tables come at the end; or, with --benchmark_format=json, Google Benchmark's JSON. The same JSON
// goes to the file of --benchmark_out, row by row.
#pragma once

#include <benchmark/benchmark.h>

#include <memory>
#include <sstream>
#include <vector>

#include "report/result_file.h"
#include "report/row.h"

namespace overlapbench {

class RunReporter : public benchmark::BenchmarkReporter {
 public:
  // `planned`: rows to come. `file` may be nullptr.
  RunReporter(bool is_root, bool json_to_console, int planned, std::unique_ptr<ResultFile> file);

  bool ReportContext(const Context& context) override;
  void ReportRuns(const std::vector<Run>& report) override;
  void Finalize() override;

 private:
  void ShowPlan() const;
  void ShowRow(const Row& row) const;
  void WriteJson(const std::string& ending);

  bool is_root_;
  bool json_to_console_;
  int planned_;
  int shown_ = 0;
  std::unique_ptr<ResultFile> file_;
  std::ostringstream json_text_;
  benchmark::JSONReporter json_;
  std::vector<Row> rows_;
};

}  // namespace overlapbench
