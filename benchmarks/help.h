// What the program reports without measuring: --help, --version, --dry_run, --list_axes and
// --list_counters.
#pragma once

#include <vector>

#include "benchmarks/plan.h"
#include "fixtures/options.h"

namespace overlapbench {

// Answers without ranks.
void Answer(Question question);

// The benchmarks that were chosen, how many there are, and about how long measuring them takes.
void PrintDryRun(const Options& options, const std::vector<Benchmark>& chosen);

// Every workload with its axes, and the axes of samples and scenarios.
void PrintAxes(const Registry& registry, const Plan& plan);

}  // namespace overlapbench
