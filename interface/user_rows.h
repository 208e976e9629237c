// Rows of callables: the suite's own scenarios, with callables in the place of its workloads.
//
// A pair is a row of Overlap (benchmarks/pair.h), a callable alone one of Compute or Comm. Only
// Schedule is new: any lanes and steps, against the same steps in sequence, and against their
// bound.
//
// Each callable is also compared with one that enqueues nothing, in runs of the same form, and once
// more when what it has enqueued elsewhere has ended (Session::quiet). If it takes no longer,
// whatever it did was not on its lane, and the row is invalid.
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
  std::vector<AxisOverride> labels;  // of its name alone
  std::vector<AxisOverride> axes;    // of the suite's
  Callable nothing;                  // without `enqueue`: nobody looks for empty lanes
};

// What the family Schedule shows, for reports.
FamilyText ScheduleFamily();

// The workloads that the row's callables are. They keep the place that they have in the row.
Registry RegistryOf(const UserRow& row, CallLog& log);

// The row. The catalog has the workloads of RegistryOf(row), and must outlive it. Throws UsageError
// if there is no such row here.
Benchmark BenchmarkOf(const UserRow& row, const Catalog& catalog, const CounterTable& table,
                      CallLog& log);

}  // namespace overlapbench
