// ShortestTime_us: how long something takes alone, outside any measurement. It decides what is
// measured, as how long a stand-in holds its SMs.
#pragma once

#include <functional>
#include <string>

#include "workload/workload.h"

namespace overlapbench {

// From event to event on the stream, the shortest of so many runs of what `enqueue` puts there.
// Before each run it is enqueued once more, to keep the stream busy until the rest is enqueued.
// `what` is how a timeout names it.
double ShortestTime_us(const Machine& machine, Stream& stream, int runs, const std::string& what,
                       const std::function<void()>& enqueue);

}  // namespace overlapbench
