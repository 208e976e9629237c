// EndJob: the way out for an error after which the ranks cannot go on together.
#pragma once

#include <exception>

#include "ranks/ranks.h"
#include "ranks/watchdog.h"

namespace overlapbench {

// Shows the error and ends all ranks: rank 0 for all, where all ranks know of it; else this rank,
// which says where it was and tells rank 0 why. `ranks` may be nullptr, before MPI has started.
[[noreturn]] void EndJob(Watchdog& watchdog, const Progress& progress, Ranks* ranks,
                         const std::exception& error);

}  // namespace overlapbench
