// Preflight: refuses, before any rank starts, flags that are wrong whatever the ranks find.
//
// `./bench` calls the program with --query=flags before it calls the launcher, which takes seconds
// and would repeat the refusal for every rank. A program without a launcher checks itself. Ranks
// that were started by a launcher check only what could end them before they can report it; they
// meet the other mistakes later, together.
//
// What depends on the device or on the ranks remains: axis values on GPUs, whose limits are the
// device's, and filters that match nothing at this number of ranks.
#pragma once

#include <functional>
#include <vector>

#include "fixtures/options.h"
#include "workload/registry.h"

namespace overlapbench {

// Throws UsageError for a filter that std::regex cannot match in reasonable time and memory. Call
// before threads and MPI start.
void RequireUsableFilters(const Options& options);

// Throws UsageError for output files that cannot be written or are the same, and for axes and pairs
// that do not exist. `others` may refuse more; it gets the host backend's workloads. Leaves no file
// behind.
void RequireUsable(const Options& options, const std::function<void(const Registry&)>& others);

// Every axis of the workloads, and then of the scenarios; several may have the same name.
std::vector<Axis> KnownAxes();

}  // namespace overlapbench
