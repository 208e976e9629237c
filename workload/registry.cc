#include "workload/registry.h"

#include <algorithm>
#include <array>

namespace overlapbench {

void Workload::EnqueuePart(Stream& /*stream*/, const Part& /*part*/) {
  throw Error("this workload has no parts");
}

const char* ToString(WorkClass work_class) {
  constexpr std::array<const char*, 3> kNames = {"COMP", "COMM", "MEM"};
  return kNames.at(static_cast<std::size_t>(work_class));
}

void Registry::Add(std::vector<WorkloadSpec> specs) {
  for (auto& spec : specs) Add(std::move(spec));
}

const WorkloadSpec& Registry::Find(std::string_view name) const {
  const auto spec = std::ranges::find(specs_, name, &WorkloadSpec::name);
  if (spec == specs_.end()) throw Error("there is no workload '" + std::string(name) + "'");
  return *spec;
}

WorkloadSpec Unavailable(std::string_view name, WorkClass work_class, std::string reason,
                         bool baseline) {
  WorkloadSpec spec;
  spec.name = name;
  spec.work_class = work_class;
  spec.baseline = baseline;
  spec.missing = std::move(reason);
  return spec;
}

}  // namespace overlapbench
