// A kernel that counts: adds 1 to every element that Block::ForEach visits.
#pragma once

#include "device/device.h"

namespace overlapbench {

// In blocks of 1, 32 or 1000 threads.
template <int Threads>
void EnqueueCountVisits(Stream& stream, int blocks, int* visits, long count);

}  // namespace overlapbench
