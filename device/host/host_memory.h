// The host's memory, for both backends: how much this process can still allocate.
//
// The kernel estimates what is free (/proc/meminfo). A container has less if its control group has
// a limit; the kernel kills a process that exceeds it without a message. A group's inactive file
// pages are reclaimed on demand, so they count as free.
//
// Sources: proc(5), cgroups(7); Linux kernel documentation, "Control Group v2" (memory.max) and
// "Memory Resource Controller" (memory.limit_in_bytes).
#pragma once

#include <filesystem>

#include "device/device.h"

namespace overlapbench {

// The least free and the least total memory over the kernel's estimate and all limits. `root` is
// where /proc and /sys are.
Memory HostMemory(const std::filesystem::path& root = "/");

}  // namespace overlapbench
