#include "benchmarks/injected_delay.h"

#include <fmt/core.h>

#include <string>

#include "benchmarks/name_filter.h"

namespace overlapbench {
namespace {

struct Injection {
  NameFilter names;
  Settings settings;  // of the Delay
};

// The last colon is the separator, since names have colons too.
Injection Parse(std::string_view flag, const WorkloadSpec& delay) {
  const auto colon = flag.rfind(':');
  if (colon == std::string_view::npos) {
    throw UsageError("--inject_delay takes REGEX:MICROSECONDS, got '" +
                     ShownFilter(std::string(flag)) + "'");
  }
  const Axis& axis = delay.axes.front();
  Settings settings;
  try {
    settings.Set(axis, axis.canonical(flag.substr(colon + 1)));
  } catch (const UsageError& error) {
    throw UsageError("--inject_delay: microseconds: " + std::string(error.what()));
  }
  return {NameFilter("--inject_delay", std::string(flag.substr(0, colon))), settings};
}

}  // namespace

void RequireInjectable(std::string_view flag, const Registry& registry) {
  Parse(flag, registry.Find("Delay"));
}

bool InjectDelayIfAny(std::string_view flag, const Registry& registry,
                      std::vector<Benchmark>& benchmarks) {
  const WorkloadSpec& delay = registry.Find("Delay");
  const Injection injection = Parse(flag, delay);
  bool matched = false;
  for (Benchmark& benchmark : benchmarks) {
    if (!injection.names.Matches(benchmark.name)) continue;
    matched = true;
    benchmark.make_delay = [make = delay.make, settings = injection.settings] {
      return make(settings);
    };
  }
  return matched;
}

void InjectDelay(std::string_view flag, const Registry& registry,
                 std::vector<Benchmark>& benchmarks) {
  if (InjectDelayIfAny(flag, registry, benchmarks)) return;
  throw UsageError(fmt::format("--inject_delay={} matches none of the benchmarks that were chosen",
                               ShownFilter(std::string(flag))));
}

}  // namespace overlapbench
