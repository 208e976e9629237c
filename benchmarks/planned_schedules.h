// PrintSchedules: the schedules of rows on any number of ranks, for --plan_ranks. Nothing is
// measured, and no other rank is started.
#pragma once

#include "fixtures/options.h"

namespace overlapbench {

// Prints {"planned": [{"name": ..., "schedules": ...}, ...]} for the chosen rows, and on the error
// stream what does not exist there. Throws UsageError if nothing does.
void PrintSchedules(const Options& options);

}  // namespace overlapbench
