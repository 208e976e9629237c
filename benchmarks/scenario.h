// Scenario: what is measured. A family of rows, its runs and its counters are one file in
// benchmarks/ and one line in benchmarks/scenarios.def.
//
//   Family Overlap();     // the function that FAMILY(Overlap) calls
//
// A `Family` has a name, the counters that it alone defines, and its scenarios on a machine. A
// `Scenario` is all rows of one name: axes with their default values, the runs for each combination
// of values, and the report that turns their samples into counters. docs/adding-a-scenario.md shows
// one.
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
  // What this machine lacks to run it; "" when nothing.
  std::string missing = {};
  // In the order of names. Those of every sample (SampleAxes) are appended unless they are there.
  std::vector<Axis> axes = {};
  // Of settings with an axis at `auto`: what it may stand for. The fastest of them that exist is
  // measured.
  std::function<std::vector<Settings>(const Settings&)> candidates = {};
  std::string plain_run = {};  // that the choice must not lose to (Benchmark::plain_run)
  // Why a combination of values does not exist; "" when it does. May be empty: all exist.
  std::function<std::string(const Settings&)> excluded = {};
  // The runs of a row. The last one is the row's own.
  std::function<std::vector<Run>(const Settings&)> runs = {};
  std::function<Remark(const Measurement&, benchmark::UserCounters&)> report = ReportOwnRates;
};

struct Catalog;

struct Family {
  std::string name;
  std::string about;                   // one sentence, for --help and the report
  std::vector<std::string> lead;       // the counters that tell most, first
  std::vector<Counter> counters = {};  // that it alone defines
  std::vector<Scenario> (*scenarios)(const Catalog&) = nullptr;
};

// What scenarios are made from.
struct Catalog {
  const Registry& workloads;
  const Device& device;
  Machine machine;

  [[nodiscard]] bool on_host() const { return device.backend() == Backend::kHost; }
};

// The axes of every sample: cache, cadence.
std::vector<Axis> SampleAxes();

// Appends those of `more` whose names are not there yet: where two workloads have an axis of a
// name, they share its value.
void AppendAxes(std::vector<Axis>& axes, const std::vector<Axis>& more);

// The priority of a side's stream: "comm_priority". And why the device has no such priority; ""
// when it does.
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
