// OpenDevice: chooses the backend, and the GPU or cores, that this rank works on.
#pragma once

#include <memory>

#include "device/device.h"
#include "fixtures/options.h"
#include "ranks/ranks.h"

namespace overlapbench {

// One GPU per rank if there are GPUs. Otherwise the machine's ranks share its cores. --backend and
// --host_cores override this. Called by all ranks together. Throws UsageError on all of them if
// ranks would share a GPU or have different backends.
std::unique_ptr<Device> OpenDevice(Ranks& ranks, const Options& options);

}  // namespace overlapbench
