#include "benchmarks/scenario.h"

#include <fmt/core.h>

#include <algorithm>

namespace overlapbench {

std::vector<Axis> SampleAxes() {
  return {ChoiceAxis("cache", "cold: the last-level cache is flushed before every sample",
                     {"cold", "warm"}, "cold"),
          ChoiceAxis("cadence", "isolated samples, or up to 20 back to back behind one gate",
                     {"isolated", "streaming"}, "isolated", "isolated")};
}

void AppendAxes(std::vector<Axis>& axes, const std::vector<Axis>& more) {
  for (const Axis& axis : more) {
    if (std::ranges::find(axes, axis.name, &Axis::name) == axes.end()) axes.push_back(axis);
  }
}

Axis PriorityAxis(const std::string& side, const std::string& about) {
  constexpr long kMost = 32;  // more than any device has; ExcludedPriority checks against this one
  return IntegerAxis(side + "_priority", about + "; 0 is the lowest", 0, kMost, "0", "0");
}

std::string ExcludedPriority(const Device& device, const Settings& settings,
                             const std::string& side) {
  const std::string axis = side + "_priority";
  const int highest = device.info().priorities - 1;
  if (settings.Integer(axis) <= highest) return "";
  if (highest == 0) return axis + " must be 0: streams have no priorities here";
  return fmt::format("{} must be from 0 to {}", axis, highest);
}

void SetValues(std::vector<Axis>& axes, const Values& values) {
  for (Axis& axis : axes) {
    const auto value = values.find(axis.name);
    if (value != values.end()) axis.values = ReadValues(axis, value->second);
  }
}

Scenario ScenarioOf(std::string name, const std::vector<const WorkloadSpec*>& workloads,
                    const Values& values) {
  Scenario scenario;
  scenario.name = std::move(name);
  for (const WorkloadSpec* workload : workloads) {
    if (scenario.missing.empty() && !workload->missing.empty())
      scenario.missing = workload->name + " " + workload->missing;
    AppendAxes(scenario.axes, workload->axes);
  }
  AppendAxes(scenario.axes, SampleAxes());
  SetValues(scenario.axes, values);
  scenario.excluded = [workloads](const Settings& settings) {
    for (const WorkloadSpec* workload : workloads) {
      const std::string reason = workload->excluded ? workload->excluded(settings) : "";
      if (!reason.empty()) return reason;
    }
    return std::string();
  };
  return scenario;
}

Scenario Baseline(const std::string& name, const WorkloadSpec& workload, const Values& values) {
  Scenario scenario = ScenarioOf(name, {&workload}, values);
  scenario.runs = [&workload](const Settings& settings) {
    return std::vector<Run>{SoloRun(MakeWork(workload, settings))};
  };
  return scenario;
}

}  // namespace overlapbench
