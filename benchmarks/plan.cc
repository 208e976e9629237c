#include "benchmarks/plan.h"

#include <algorithm>
#include <set>

namespace overlapbench {
namespace {

// How a sample is taken, whatever is in it.
std::vector<Axis> SampleAxes() {
  return {ChoiceAxis("cache", "cold: the last-level cache is flushed before every sample",
                     {"cold", "warm"}, "cold"),
          ChoiceAxis("cadence", "isolated samples, or 20 back to back behind one gate",
                     {"isolated", "streaming"}, "isolated", "isolated")};
}

// Appends those of `more` whose names are not there yet.
void Append(std::vector<Axis>& axes, const std::vector<Axis>& more) {
  for (const Axis& axis : more) {
    if (std::ranges::find(axes, axis.name, &Axis::name) == axes.end()) axes.push_back(axis);
  }
}

// Why the combination of values does not exist; "" when it does.
std::string ReasonAgainst(const Configuration& configuration) {
  for (const auto& [spec, settings] : configuration.parts()) {
    const std::string reason = spec->excluded ? spec->excluded(settings) : "";
    if (!reason.empty()) return reason;
  }
  return "";
}

}  // namespace

Plan::Plan(const Registry& registry, Backend backend, const std::vector<AxisOverride>& overrides)
    : registry_(registry), backend_(backend), overrides_(overrides), method_axes_(SampleAxes()) {}

void Plan::RequireKnownAxes() const {
  std::set<std::string> known;
  for (const auto& spec : registry_.specs()) {
    for (const auto& axis : spec.axes) known.insert(axis.name);
  }
  for (const auto& axis : method_axes_) known.insert(axis.name);
  std::string list;
  for (const auto& name : known) list += (list.empty() ? "" : ", ") + name;
  for (const auto& one : overrides_) {
    if (known.contains(one.name)) continue;
    throw UsageError("there is no axis '" + one.name + "'; the axes are " + list);
  }
  for (const auto& one : overrides_) {
    const auto refused = refused_.find(one.name);
    if (refused == refused_.end() || taken_.contains(one.name)) continue;
    throw UsageError(refused->second + HintAtNames(one));
  }
}

std::string Plan::HintAtNames(const AxisOverride& one) const {
  const std::string part = one.name + ":" + one.values;
  const bool exists = std::ranges::any_of(benchmarks_, [&](const auto& benchmark) {
    return benchmark.configuration.name.find("/" + part + "/") != std::string::npos;
  });
  return exists ? "; it is part of names: choose by --benchmark_filter=" + part : "";
}

void Plan::Know(const std::vector<Axis>& fixture_axes) { Append(method_axes_, fixture_axes); }

// Where both sides have an axis of a name, they share its value.
std::vector<Axis> Plan::AxesOf(const Case& one, const std::vector<Axis>& fixture_axes) {
  std::vector<Axis> axes;
  for (const auto& name : {one.comm, one.comp}) {
    if (!name.empty()) Append(axes, registry_.Find(name).axes);
  }
  Append(axes, SampleAxes());
  Append(axes, fixture_axes);
  Know(fixture_axes);
  for (auto& axis : axes) {
    const auto value = one.values.find(axis.name);
    if (value != one.values.end()) axis.values = ReadValues(axis, value->second);
  }
  return axes;
}

std::string Plan::Replace(std::vector<Axis>& axes) {
  for (auto& axis : axes) {
    const auto replaced = std::ranges::find(overrides_, axis.name, &AxisOverride::name);
    if (replaced == overrides_.end()) continue;
    try {
      axis.values = ReadValues(axis, replaced->values);
      taken_.insert(axis.name);
    } catch (const UsageError& error) {
      refused_.emplace(axis.name, error.what());
      return error.what();
    }
  }
  return "";
}

void Plan::AddCombinations(const std::string& family, const Case& one,
                           const std::vector<Axis>& fixture_axes,
                           decltype(Configuration::make_scene) make_scene,
                           const decltype(PlannedBenchmark::make_fixture)& make_fixture) {
  Configuration configuration;
  configuration.make_scene = make_scene;
  configuration.comp = &registry_.Find(one.comp);
  if (!one.comm.empty()) configuration.comm = &registry_.Find(one.comm);
  const std::string workloads = (one.comm.empty() ? "" : one.comm + "+") + one.comp;
  const std::string stem = family + "/" + (one.title.empty() ? workloads : one.title);
  const auto cannot_run = [&] {
    for (const Part& part : configuration.parts()) {
      if (part.spec->missing.empty()) continue;
      unavailable_.push_back({stem, part.spec->name + " " + part.spec->missing});
      return true;
    }
    return false;
  };
  if (cannot_run()) return;
  // Not before: a build that lacks a workload may not know its references either.
  for (const auto& name : one.references)
    configuration.references.push_back({&registry_.Find(name), {}});
  if (cannot_run()) return;
  std::vector<Axis> axes = AxesOf(one, fixture_axes);
  if (const std::string reason = Replace(axes); !reason.empty()) {
    unavailable_.push_back({stem, reason});
    return;
  }
  for (const auto& settings : Combinations(axes)) {
    configuration.name = stem + settings.NameSuffix();
    configuration.settings = settings;
    for (Part& reference : configuration.references) {
      reference.settings =
          one.reference_settings ? one.reference_settings(*reference.spec, settings) : settings;
    }
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

Plan MakePlan(const Registry& registry, const std::vector<AxisOverride>& overrides,
              const Device& device) {
  const Backend backend = device.backend();
  Plan plan(registry, backend, overrides);
  PlanCompute(plan, registry);
  PlanComm(plan, registry);
  PlanOverlap(plan, backend);
  PlanCopy(plan, backend);
  PlanPriority(plan, device);
  PlanSupply(plan);
  PlanLaunch(plan);
  PlanGelu(plan, backend);
  PlanSoftmax(plan, backend);
  PlanMlp(plan);
  plan.RequireKnownAxes();
  return plan;
}

}  // namespace overlapbench
