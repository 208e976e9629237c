// A kernel that cannot end well: for --inject_fault (benchmarks/injected_fault.h).
#pragma once

#include "device/device.h"

namespace overlapbench {

// On a GPU the kernel traps, after which every call into this process's context fails
// (cudaErrorLaunchFailure, CUDA Runtime API, "Error handling"); on the host its task throws Error.
void EnqueueTrap(Stream& stream);

}  // namespace overlapbench
