// ShortestTime_us: how long some work takes alone, outside any measurement. Such times set
// parameters of what is measured, such as how long a stand-in holds its SMs.
#pragma once

#include <functional>
#include <string>

#include "workload/workload.h"

namespace overlapbench {

// The shortest time, from event to event on the stream, of `runs` runs of what `enqueue` enqueues.
// An extra, untimed run before each keeps the stream busy until the rest is enqueued. `what` names
// the work if it times out.
double ShortestTime_us(const Machine& machine, Stream& stream, int runs, const std::string& what,
                       const std::function<void()>& enqueue);

}  // namespace overlapbench
