// ResultJson: the text of a result in pieces: the beginning, one piece per benchmark, and the
// ending. The caller writes them to a file or passes them on.
//
// It has the form of Google Benchmark's JSON, with two additions: the tables of counters and
// families (counters.h) after the context, and each row's `state`, `reason` and, on request,
// `schedules` (schedule_json.h). Google Benchmark itself describes the machine in the context. Rows
// are written from `Row`, the aggregates of repetitions from Google Benchmark's Run, and the times
// and indices of both from the Run.
#pragma once

#include <benchmark/benchmark.h>

#include <string>
#include <vector>

#include "fixtures/row.h"
#include "report/counters.h"

namespace overlapbench {

class ResultJson {
 public:
  // `table` must outlive this.
  explicit ResultJson(const CounterTable& table) : table_(table) {}

  // Each is called in turn: the beginning once, runs any number of times, the end once.
  std::string Begin(const benchmark::BenchmarkReporter::Context& context);
  // `rows`: one for each run that is not an aggregate. Throws Error if a row has a counter that is
  // not in the table.
  std::string Runs(const std::vector<benchmark::BenchmarkReporter::Run>& runs,
                   const std::vector<Row>& rows);
  static std::string End();
  // What closes the text in place of End(), before the run has ended.
  static std::string Incomplete(const std::string& reason);

 private:
  void RequireDefined(const Row& row) const;

  const CounterTable& table_;
  bool has_rows_ = false;
};

}  // namespace overlapbench
