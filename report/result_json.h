// ResultJson: the text of a result in pieces: the beginning, one piece per row, and the ending. The
// caller writes them to a file or passes them on.
//
// It is Google Benchmark's JSON with two additions: the tables of counters and families
// (counters.h) after the context, and each row's `state` and `reason`. Names are the benchmarks'
// own, without Google Benchmark's "/iterations:1/manual_time".
#pragma once

#include <benchmark/benchmark.h>

#include <sstream>
#include <string>

#include "report/counters.h"

namespace overlapbench {

class ResultJson {
 public:
  // `table` must outlive this.
  explicit ResultJson(const CounterTable& table);

  // Each is called in turn: the beginning once, a row any number of times, the end once.
  std::string Begin(const benchmark::BenchmarkReporter::Context& context);
  std::string Row(benchmark::BenchmarkReporter::Run run);
  std::string End();
  // What closes the text in place of End(), before the run has ended.
  static std::string Incomplete(const std::string& reason);

 private:
  std::string Take();

  const CounterTable& table_;
  std::ostringstream stream_;
  benchmark::JSONReporter json_;
};

}  // namespace overlapbench
