// What the program reports without measuring: --help, --version, --dry_run, --list_axes and
// --list_counters.
#pragma once

#include <string>
#include <vector>

#include "benchmarks/plan.h"
#include "fixtures/options.h"

namespace overlapbench {

// Prints the answer, without ranks. `help_topic`: of kHelpTopics; "": an overview.
void Answer(Question question, const std::string& help_topic = "");

// Prints the chosen benchmarks, their number, and roughly how long measuring them takes.
void PrintDryRun(const Options& options, const std::vector<Benchmark>& chosen);

// Prints every workload with its axes, and the axes of samples and scenarios.
void PrintAxes(const Registry& registry, const Plan& plan);

}  // namespace overlapbench
