// Scenarios of memory-bound kernels, compared with a copy of the minimum number of bytes that they
// must move.
//
// That copy, within device memory, is a run in the same group with the same cache state.
// pct_of_copy is its time over the kernel's: 100 is the speed of light of such a kernel. An unfused
// form also runs its fused form. fused_speedup is the unfused time over the fused one, to be
// compared with predicted_speedup, the ratio of the bytes that both move.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "benchmarks/scenario.h"

namespace overlapbench {

struct AgainstCopy {
  std::string name;  // of the scenario
  const WorkloadSpec& kernel;
  Values values;
  // The bytes that the copy moves at a row's settings: half of what the kernel must read and write,
  // rounded up to whole words, at least one.
  std::function<long(const Settings&)> copied_bytes;
  const WorkloadSpec* fused = nullptr;  // of an unfused kernel
};

Scenario ScenarioOf(const Catalog& catalog, const AgainstCopy& against);

// The counters of these rows, and of all others that are compared with another form of the same
// work.
std::vector<Counter> FormCounters();

// The size of one element, which the axis `precision` selects.
long ElementBytes(const Settings& settings);

}  // namespace overlapbench
