// RunReporter: learns from Google Benchmark which runs have finished, and takes their rows
// (fixtures/row.h). On rank 0, it writes them to the result file and to standard output, as text
// (console.h), JSON or CSV; on other ranks it drops them.
#pragma once

#include <benchmark/benchmark.h>

#include <atomic>
#include <cstddef>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "fixtures/options.h"
#include "fixtures/row.h"
#include "ranks/progress.h"
#include "report/console.h"
#include "report/counters.h"
#include "report/result_file.h"
#include "report/result_json.h"

namespace overlapbench {

// Whether standard output could not take everything, as on a full disk. A reader that has gone, as
// `head`, wants no more.
bool OutputFailed();

class RunReporter : public benchmark::BenchmarkReporter {
 public:
  struct Options {
    ConsoleFormat format = ConsoleFormat::kText;
    RowTableOptions console = {};
    bool keeps_file = true;  // else whoever started the run removes the file: it is not mentioned
  };
  // `file` may be nullptr. `progress`, `finished` and `table` must outlive this.
  RunReporter(Progress& progress, FinishedRows& finished, const CounterTable& table,
              Options options, std::unique_ptr<ResultFile> file);

  bool ReportContext(const Context& context) override;
  void ReportRuns(const std::vector<Run>& report) override;
  void Finalize() override;
  // Rank 0's console, if rows are shown as text; else nullptr.
  [[nodiscard]] Console* console() { return console_.get(); }
  // For a run that ends early. After Stop, the main thread shows and writes nothing more. Abandon
  // then closes the file with the reason, and shows what was measured. Both may be called from
  // another thread.
  void Stop();
  void Abandon(const std::string& reason);

 private:
  void ShowTheEnd();
  [[nodiscard]] bool KeepsFile() const { return file_ != nullptr && options_.keeps_file; }

  Progress& progress_;
  FinishedRows& finished_;
  const CounterTable& table_;
  Options options_;
  bool is_root_;
  std::unique_ptr<ResultFile> file_;
  std::unique_ptr<Console> console_;
  ResultJson json_;
  std::timed_mutex showing_;  // guards what is shown, against Stop and Abandon
  std::atomic<bool> stopped_ = false;
  std::vector<Row> rows_;
  std::atomic<std::size_t> kept_rows_ = 0;  // those that the file has
};

}  // namespace overlapbench
