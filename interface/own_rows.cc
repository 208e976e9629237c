#include "interface/own_rows.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "device/text.h"

namespace overlapbench {
namespace {

// How many of several matching names the error shows.
constexpr std::size_t kShown = 3;

Registry FilledRegistry(Machine& machine) {
  Registry registry;
  FillRegistry(registry, machine);
  return registry;
}

// The axes of "/axis:value/axis:value".
std::vector<AxisOverride> AxesOf(const std::string& text) {
  std::vector<AxisOverride> axes;
  for (std::size_t begin = 1; begin < text.size();) {
    const std::size_t end = std::min(text.find('/', begin), text.size());
    const std::string part = text.substr(begin, end - begin);
    const std::size_t colon = part.find(':');
    if (colon == std::string::npos)
      throw UsageError(fmt::format("'{}' is not part of a row's name; write axis:value", part));
    axes.push_back({part.substr(0, colon), part.substr(colon + 1)});
    begin = end + 1;
  }
  return axes;
}

std::string ListOf(const std::vector<Benchmark>& rows) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < std::min(kShown, rows.size()); ++i) names.push_back(rows[i].name);
  const std::string more =
      rows.size() > kShown ? fmt::format(" and {} more", rows.size() - kShown) : std::string();
  return fmt::format("{}{}", fmt::join(names, ", "), more);
}

}  // namespace

OwnRows::OwnRows(Machine& machine)
    : registry_(FilledRegistry(machine)),
      catalog_{registry_, machine.device, machine},
      scenarios_(AllScenarios(catalog_)) {}

Benchmark OwnRows::Find(const std::string& name) const {
  const std::string known = ScenarioOf(name);
  Plan plan(AxesOf(name.substr(known.size())));
  for (const Scenario& scenario : scenarios_) {
    if (scenario.name == known) plan.Add(scenario);
  }
  plan.RequireKnownAxes();
  const std::vector<Benchmark>& rows = plan.benchmarks();
  const auto exact = std::ranges::find(rows, name, &Benchmark::name);
  if (exact != rows.end()) return *exact;
  if (rows.size() > 1)
    throw UsageError(fmt::format("{} matches {} rows: {}", name, rows.size(), ListOf(rows)));
  if (!rows.empty()) return rows.front();
  const auto& [unavailable, reason] = plan.unavailable().front();
  throw UsageError(fmt::format("not available: {}: {}", unavailable, reason));
}

// The longest scenario name that is a prefix of the row's name.
std::string OwnRows::ScenarioOf(const std::string& name) const {
  std::string longest;
  std::vector<std::string> names;
  for (const Scenario& scenario : scenarios_) {
    names.push_back(scenario.name);
    if ((name + "/").starts_with(scenario.name + "/") && scenario.name.size() > longest.size())
      longest = scenario.name;
  }
  if (!longest.empty()) return longest;
  const std::size_t axes = name.find(':');
  const std::string words =
      axes == std::string::npos ? name : name.substr(0, name.rfind('/', axes));
  const std::string meant = DidYouMean(words, names);
  throw UsageError(
      fmt::format("the suite has no rows of '{}'{}", words,
                  meant.empty() ? "; ./bench --benchmark_list_tests lists their names" : meant));
}

}  // namespace overlapbench
