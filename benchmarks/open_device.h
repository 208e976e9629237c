// OpenDevice: which backend, and which GPU or cores, this rank works on.
#pragma once

#include <memory>

#include "device/device.h"
#include "fixtures/options.h"
#include "ranks/ranks.h"

namespace overlapbench {

// One GPU a rank where there are GPUs, else this machine's cores shared among its ranks;
// --backend= and --host_cores= say otherwise. Called by all ranks together. Throws UsageError, on
// all of them, where ranks would not have a GPU each, or would not have the same backend.
std::unique_ptr<Device> OpenDevice(Ranks& ranks, const Options& options);

}  // namespace overlapbench
