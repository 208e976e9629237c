// OverlapPair: any two workloads beside each other, as --pair names them.
#pragma once

#include <string>

#include "benchmarks/scenario.h"

namespace overlapbench {

// The scenario that Overlap has, or would have, for "A+B". In its name the communication or copy
// stands first, whichever is given first. "Gelu" and "Softmax" stand for their fused kernels.
// Throws UsageError if there is no such workload.
Scenario OverlapPair(const Catalog& catalog, const std::string& names);

}  // namespace overlapbench
