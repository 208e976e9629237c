// What the program says of itself: --help and --list_axes.
#pragma once

#include "benchmarks/plan.h"
#include "workload/registry.h"

namespace overlapbench {

void PrintHelp();

// Every workload with its axes, and the method's axes.
void PrintAxes(const Registry& registry, const Plan& plan);

}  // namespace overlapbench
