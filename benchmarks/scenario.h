// Scenario: what is measured. A family of rows, its runs and its counters are one file in
// benchmarks/ and one line in benchmarks/scenarios.def.
//
//   Family Overlap();     // the function that FAMILY(Overlap) calls
//
// A `Family` has a name, the counters that it alone defines, and its scenarios on a machine. A
// `Scenario` is all rows of one name: axes with their default values, the runs for each combination
// of values, and the report that turns their samples into counters.
// docs/internals/adding-a-scenario.md shows one.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "fixtures/measurement.h"
#include "report/counters.h"
#include "workload/registry.h"

namespace overlapbench {

// Axis -> "V1,V2".
using Values = std::map<std::string, std::string>;

struct Scenario {
  std::string name;  // "Overlap/AllToAll+Gemm": what stands before the axes
  // What this machine lacks to run it; "" if nothing.
  std::string missing = {};
  // In the order of names. The axes of every sample (SampleAxes) are appended unless present.
  std::vector<Axis> axes = {};
  // For settings with an axis at `auto`: what it may stand for. The fastest of those that exist is
  // measured.
  std::function<std::vector<Settings>(const Settings&)> candidates = {};
  std::string plain_run = {};     // the choice must not be slower than it (Benchmark::plain_run)
  bool prioritizes_comm = false;  // Benchmark::prioritizes_comm
  std::size_t least_groups = 0;   // Benchmark::least_groups
  // Why a combination of values does not exist; "" when it does. May be empty: all exist.
  std::function<std::string(const Settings&)> excluded = {};
  // The runs of a row. The last one is the row's own.
  std::function<std::vector<Run>(const Settings&)> runs = {};
  std::function<Remark(const Measurement&, Counters&)> report = ReportOwnRates;
};

struct Catalog;

struct Family {
  std::string name;
  std::string about;                   // one sentence, for --help and the report
  std::vector<std::string> lead;       // the most important counters
  std::vector<Counter> counters = {};  // defined by this family alone
  std::vector<Scenario> (*scenarios)(const Catalog&) = nullptr;
};

// The workloads and the machine from which scenarios are made.
struct Catalog {
  const Registry& workloads;
  const Device& device;
  Machine machine;

  [[nodiscard]] bool on_host() const { return device.backend() == Backend::kHost; }
};

// The axes of every sample: cache, cadence.
std::vector<Axis> SampleAxes();

// Appends the axes of `more` whose names are new: two workloads with an axis of one name share its
// value.
void AppendAxes(std::vector<Axis>& axes, const std::vector<Axis>& more);

// The axis of a side's stream priority, "comm_priority"; and why the device has no such priority,
// "" if it has.
Axis PriorityAxis(const std::string& side, const std::string& about);
std::string ExcludedPriority(const Device& device, const Settings& settings,
                             const std::string& side);

// Gives axes other default values. Values of axes that are not there are ignored: a pair's table of
// defaults may name axes of some computations only.
void SetValues(std::vector<Axis>& axes, const Values& values);

// A scenario of workloads: their axes at `values`, and whatever any of them lacks or excludes.
Scenario ScenarioOf(std::string name, const std::vector<const WorkloadSpec*>& workloads,
                    const Values& values = {});

// A workload alone, with its rates.
Scenario Baseline(const std::string& name, const WorkloadSpec& workload, const Values& values = {});

}  // namespace overlapbench
