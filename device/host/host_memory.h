// The host's memory, for both backends: what this process can still get of it.
//
// The kernel estimates what is free (/proc/meminfo). A container has less where its control group
// has a limit; going beyond it ends the process without a word. Of what a group uses, file pages
// that nobody reads any more are given back when they are needed, so they count as free.
//
// Sources: proc(5), cgroups(7); Linux kernel documentation, "Control Group v2" (memory.max) and
// "Memory Resource Controller" (memory.limit_in_bytes).
#pragma once

#include <filesystem>

#include "device/device.h"

namespace overlapbench {

// The least that any of them leaves free, and has in all. `root` is where /proc and /sys are.
Memory HostMemory(const std::filesystem::path& root = "/");

}  // namespace overlapbench
