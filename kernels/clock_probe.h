// ClockProbe: the SMs' clock while other work runs.
//
// One thread counts its SM's cycles (%clock64) for a given time of the nanosecond clock
// (%globaltimer; PTX ISA, "Special Registers"). The ratio of two probes, one beside a computation
// and one beside the same and a communication, shows the cost of power, as far as one SM's clock
// during the probe does.
#pragma once

#include <memory>

#include "workload/workload.h"

namespace overlapbench {

// Workload::Observed() is the mean clock in GHz, over all its runs; nothing on the host backend.
std::unique_ptr<Workload> MakeClockProbe(const Machine& machine, double duration_us);

}  // namespace overlapbench
