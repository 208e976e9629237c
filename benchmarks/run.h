// RunAll: lets Google Benchmark run the chosen benchmarks, and sees to the files of results.
#pragma once

#include <vector>

#include "benchmarks/plan.h"
#include "fixtures/suite.h"
#include "ranks/watchdog.h"

namespace overlapbench {

// Called by all ranks together, once. Returns the exit status. Throws UsageError if a file cannot
// be written or Google Benchmark refuses a flag, before anything is measured. Later errors end the
// job, with the finished rows kept.
int RunAll(Watchdog& watchdog, Suite& suite, const std::vector<PlannedBenchmark>& chosen);

}  // namespace overlapbench
