// The cuda backend's ActivityWatch (device/activity.h): CUPTI's activity records, and what the host
// streams of the device have stamped themselves.
//
// - Kernels are recorded as CONCURRENT_KERNEL; KERNEL would run them one after the other. Copies
//   between GPUs are MEMCPY2.
// - Marks are external correlation ids. A record has the correlation of the call that enqueued it,
//   and the call that of the mark that was pushed. A call of another thread, as NCCL's, has the
//   mark that was set last before it.
// - CUPTI's clock is compared with the steady clock when the watch begins and when it ends. Times
//   in between are converted on a straight line, since CUPTI's clock may be set meanwhile.
// - Calls that enqueued nothing, as those that ask whether something has ended, are left out. CUPTI
//   has no records of what a stream waits for, nor of the gate.
//
// A process has one watch at a time, and CUPTI one subscriber: where a profiler is at work there is
// no watch.
#pragma once

#include <memory>

#include "device/activity.h"
#include "device/host/activity_log.h"

namespace overlapbench {

// `host`: of the device's host streams. Throws Error with one line where there can be none.
std::unique_ptr<ActivityWatch> WatchByCupti(std::shared_ptr<ActivityLog> host);

}  // namespace overlapbench
