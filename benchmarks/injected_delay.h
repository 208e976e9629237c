// An injected delay: makes one computation slower on purpose, to prove that a gate would notice.
//
// `--inject_delay=REGEX:MICROSECONDS` lengthens the computation of every benchmark whose name
// matches, by enqueueing a Delay (kernels/delay.cu) behind it, in solo and overlapped runs alike.
// Everything else, verification among it, is the computation's own. The context then says
// `injected_delay`, so that such a result cannot pass for a measurement.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "benchmarks/plan.h"
#include "workload/registry.h"

namespace overlapbench {

// Changes the benchmarks that match, and returns the specs that they then refer to, which must
// outlive them. Throws UsageError if `flag` is not REGEX:MICROSECONDS, or matches none.
std::vector<std::unique_ptr<WorkloadSpec>> InjectDelay(std::string_view flag,
                                                       const Registry& registry,
                                                       std::vector<PlannedBenchmark>& benchmarks);

}  // namespace overlapbench
