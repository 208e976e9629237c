#include "workload/registry.h"

#include <algorithm>

namespace overlapbench {

void Registry::Add(std::vector<WorkloadSpec> specs) {
  for (auto& spec : specs) Add(std::move(spec));
}

const WorkloadSpec& Registry::Find(std::string_view name) const {
  const auto spec = std::ranges::find(specs_, name, &WorkloadSpec::name);
  if (spec == specs_.end()) throw Error("there is no workload '" + std::string(name) + "'");
  return *spec;
}

WorkloadSpec Unavailable(std::string_view name, Side side, std::string reason, bool baseline) {
  WorkloadSpec spec;
  spec.name = name;
  spec.side = side;
  spec.baseline = baseline;
  spec.missing = std::move(reason);
  return spec;
}

}  // namespace overlapbench
