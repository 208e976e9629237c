#include "benchmarks/plan.h"

#include <algorithm>
#include <set>

namespace overlapbench {
namespace {

// How a sample is taken. These belong to the method, not to a workload.
std::vector<Axis> MethodAxes(bool is_pair, Backend backend) {
  std::vector<Axis> axes = {
      ChoiceAxis("cache", "cold: the last-level cache is flushed before every sample",
                 {"cold", "warm"}, "cold"),
      ChoiceAxis("cadence", "isolated samples, or 20 back to back behind one gate",
                 {"isolated", "streaming"}, "isolated", "isolated")};
  if (is_pair) {
    // On the host the scheduler decides, and there is nothing to lead by.
    axes.push_back(ChoiceAxis("first", "which side starts some microseconds before the other",
                              {"comp", "comm", "none"}, backend == Backend::kCuda ? "comp" : "none",
                              backend == Backend::kCuda ? "comp" : "none"));
    axes.push_back(ChoiceAxis("streams", "2: one a side; 1: both on one, a negative control",
                              {"2", "1"}, "2", "2"));
  }
  return axes;
}

// Why the combination of values does not exist; "" when it does.
std::string ReasonAgainst(const Configuration& configuration) {
  for (const WorkloadSpec* spec : configuration.specs()) {
    const std::string reason = spec->excluded ? spec->excluded(configuration.settings) : "";
    if (!reason.empty()) return reason;
  }
  return "";
}

}  // namespace

Plan::Plan(const Registry& registry, Backend backend, const std::vector<AxisOverride>& overrides)
    : registry_(registry), backend_(backend), overrides_(overrides) {
  RequireKnownAxes();
}

std::vector<Axis> Plan::method_axes() const { return MethodAxes(/*is_pair=*/true, backend_); }

void Plan::RequireKnownAxes() const {
  std::set<std::string> known;
  const auto add = [&](const std::vector<Axis>& axes) {
    for (const auto& axis : axes) known.insert(axis.name);
  };
  for (const auto& spec : registry_.specs()) add(spec.axes);
  add(method_axes());
  std::string list;
  for (const auto& name : known) list += (list.empty() ? "" : ", ") + name;
  for (const auto& one : overrides_) {
    if (known.contains(one.name)) continue;
    throw UsageError("there is no axis '" + one.name + "'; the axes are " + list);
  }
}

std::vector<Axis> Plan::AxesOf(const Case& one) const {
  std::vector<Axis> axes;
  for (const auto& name : {one.comm, one.comp}) {
    if (name.empty()) continue;
    for (const Axis& axis : registry_.Find(name).axes) {
      // Where both sides have an axis of a name, they share its value.
      const bool shared = std::ranges::find(axes, axis.name, &Axis::name) != axes.end();
      if (!shared) axes.push_back(axis);
    }
  }
  const auto method = MethodAxes(!one.comm.empty(), backend_);
  axes.insert(axes.end(), method.begin(), method.end());
  for (auto& axis : axes) {
    const auto value = one.values.find(axis.name);
    if (value != one.values.end()) axis.values = ReadValues(axis, value->second);
    const auto replaced = std::ranges::find(overrides_, axis.name, &AxisOverride::name);
    if (replaced != overrides_.end()) axis.values = ReadValues(axis, replaced->values);
  }
  return axes;
}

void Plan::AddCombinations(const std::string& family, const Case& one,
                           decltype(Configuration::make_scene) make_scene,
                           const decltype(PlannedBenchmark::make_fixture)& make_fixture) {
  Configuration configuration;
  configuration.make_scene = make_scene;
  configuration.comp = &registry_.Find(one.comp);
  if (!one.comm.empty()) configuration.comm = &registry_.Find(one.comm);
  for (const auto& name : one.references) configuration.references.push_back(&registry_.Find(name));
  const std::string workloads = (one.comm.empty() ? "" : one.comm + "+") + one.comp;
  const std::string stem = family + "/" + (one.title.empty() ? workloads : one.title);
  for (const WorkloadSpec* spec : configuration.specs()) {
    if (spec->missing.empty()) continue;
    unavailable_.push_back({stem, spec->name + " " + spec->missing});
    return;
  }
  for (const auto& settings : Combinations(AxesOf(one))) {
    configuration.name = stem + settings.NameSuffix();
    configuration.settings = settings;
    const std::string reason = ReasonAgainst(configuration);
    const bool planned = std::ranges::any_of(benchmarks_, [&](const auto& benchmark) {
      return benchmark.configuration.name == configuration.name;
    });
    if (!reason.empty())
      unavailable_.push_back({configuration.name, reason});
    else if (!planned)
      benchmarks_.push_back({configuration, make_fixture});
  }
}

}  // namespace overlapbench
