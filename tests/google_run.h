// Runs as Google Benchmark 1.7.1 and 1.8.3 report them, for tests of their processing.
#pragma once

#include <benchmark/benchmark.h>

#include <string>

#include "fixtures/benchmark.h"

namespace overlapbench {

using GoogleRun = benchmark::BenchmarkReporter::Run;

// Two iterations of 4 ms each, with a counter.
inline GoogleRun Measured(const std::string& name) {
  GoogleRun run;
  run.run_name.function_name = name;
  run.run_name.iterations = "iterations:1";
  run.run_name.time_type = "manual_time";
  run.time_unit = benchmark::kMillisecond;
  run.iterations = 2;
  run.repetitions = 1;
  run.repetition_index = 0;
  run.real_accumulated_time = 0.008;
  run.counters["furlongs"] = 12;
  return run;
}

// Google Benchmark passes the state to the reporter as a counter, and the reason as a label.
inline GoogleRun InState(GoogleRun run, RowState state, const std::string& reason) {
  run.counters[kStateCounter] = static_cast<double>(state);
  run.report_label = reason;
  return run;
}

// Google Benchmark 1.8 renamed the members that say a run was skipped.
template <class AnyRun>
AnyRun Failed(AnyRun run, const std::string& message) {
  if constexpr (requires { run.skip_message; }) {
    using Skipped = decltype(run.skipped);
    run.skipped = Skipped::SkippedWithError;
    run.skip_message = message;
  } else {
    run.error_occurred = true;
    run.error_message = message;
  }
  return run;
}

}  // namespace overlapbench
