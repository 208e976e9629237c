// Finished rows, and the runs of Google Benchmark that they belong to, for tests of reporters.
#pragma once

#include <benchmark/benchmark.h>

#include <string>
#include <utility>

#include "fixtures/row.h"

namespace overlapbench {

using GoogleRun = benchmark::BenchmarkReporter::Run;

struct Finished {
  Row row;
  GoogleRun run;
};

// Two iterations of 4 ms each, with a counter.
inline Finished Measured(const std::string& name) {
  Finished one{.row = {.name = name, .time_ms = 4, .counters = {{"furlongs", 12}}}, .run = {}};
  one.run.run_name.function_name = name;
  one.run.run_name.iterations = "iterations:1";
  one.run.run_name.time_type = "manual_time";
  one.run.family_index = 0;
  one.run.per_family_instance_index = 0;
  one.run.time_unit = benchmark::kMillisecond;
  one.run.iterations = 2;
  one.run.repetitions = 1;
  one.run.repetition_index = 0;
  one.run.real_accumulated_time = 0.008;
  return one;
}

inline Finished InState(Finished one, RowState state, const std::string& reason) {
  one.row.state = state;
  one.row.reason = reason;
  return one;
}

inline Finished Failed(Finished one, const std::string& message) {
  one.row = {.name = one.row.name, .state = RowState::kError, .reason = message};
  one.run.real_accumulated_time = 0;
  return one;
}

}  // namespace overlapbench
