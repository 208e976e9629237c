// Selection: which of the planned benchmarks --benchmark_filter takes, and which of those it names
// cannot run here.
#pragma once

#include <string>
#include <vector>

#include "benchmarks/plan.h"

namespace overlapbench {

struct Selection {
  std::vector<PlannedBenchmark> benchmarks;
  // "not available: NAME and 3 more: needs at least 2 GPUs": a line for each reason.
  std::vector<std::string> unavailable;
};

// `filter`: as Google Benchmark's, an extended regular expression that is searched for, or, behind
// '-', one that must not be found. Throws UsageError if it is none.
Selection Select(const Plan& plan, const std::string& filter);

// Throws UsageError, saying why, if nothing was selected.
void RequireSomething(const Selection& selection, const std::string& filter);

}  // namespace overlapbench
