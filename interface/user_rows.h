// Rows of callables: the suite's own scenarios, with callables in place of its workloads.
//
// A pair is a row of Overlap (benchmarks/pair.h), a callable alone one of Compute or Comm. Only
// Schedule is new: any lanes and steps, compared with the same steps in sequence and with their
// bound.
//
// Each callable is also compared with one that enqueues nothing, in runs of the same form, and once
// more after its work on other streams has ended (Session::quiet). If it takes no longer, its work
// was not on its lane, and the row is invalid.
#pragma once

#include <string>
#include <vector>

#include "benchmarks/plan.h"
#include "interface/callable.h"

namespace overlapbench {

struct UserStep {
  std::string lane;
  std::string name;
  std::size_t work = 0;
  std::vector<std::size_t> after;
};

struct UserRow {
  overlapbench_kind kind = OVERLAPBENCH_ALONE;
  std::string name;
  std::vector<Callable> works;
  std::vector<UserStep> steps;
  std::vector<AxisOverride> labels;  // part of its name only
  std::vector<AxisOverride> axes;    // of the suite's
  Callable nothing;                  // without `enqueue`: no check for empty lanes
};

// The longest time of an empty lane, if an empty callable takes so long. On an H200 an empty lane
// takes 6.0 to 7.0 us in rows of two callables, and one with a kernel of 1,024 elements 9.2 to 9.7.
// On the host, both times include calling the callable, which varies.
double LongestEmpty_ms(Backend backend, double empty_ms);

// The text of the family Schedule, for reports.
FamilyText ScheduleFamily();

// The row's callables as workloads, in the row's order.
Registry RegistryOf(const UserRow& row, CallLog& log);

// The row's benchmark. The catalog must contain the workloads of RegistryOf(row), and outlive the
// benchmark. Throws UsageError if there is no such row here.
Benchmark BenchmarkOf(const UserRow& row, const Catalog& catalog, CallLog& log);

}  // namespace overlapbench
