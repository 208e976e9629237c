// CapturedGrids: the grids that a piece of work would launch, found without a profiler.
//
// The work is captured into a CUDA graph instead of run, and the graph's kernel nodes are read
// (CUDA Driver API, "Graph Management"). A knob that is only a hint to a library can be held
// against this.
#pragma once

#include <functional>
#include <vector>

#include "device/device.h"

namespace overlapbench {

// Blocks of each kernel that `enqueue` launches on `stream`, in no particular order.
std::vector<long> CapturedGrids(Stream& stream, const std::function<void()>& enqueue);

}  // namespace overlapbench
