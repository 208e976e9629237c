// Scenarios of kernels that are bound by memory, against a copy of as many bytes as they must move
// at least.
//
// That copy, within the device's memory, is a run of the same group in the same state of the cache.
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
  // How many bytes the copy takes at a row's settings: half of what the kernel must read and write.
  // A copy takes whole words, and at least one, so they are rounded up.
  std::function<long(const Settings&)> copied_bytes;
  const WorkloadSpec* fused = nullptr;  // of an unfused kernel
};

Scenario ScenarioOf(const Catalog& catalog, const AgainstCopy& against);

// Of these rows, and of all others that are compared with another form of the same work.
std::vector<Counter> FormCounters();

// The size of one element, by the axis `precision`.
long ElementBytes(const Settings& settings);

}  // namespace overlapbench
