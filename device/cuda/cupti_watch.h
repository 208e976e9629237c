// The cuda backend's ActivityWatch (device/activity.h): CUPTI's activity records, and the records
// that the device's host streams write themselves.
//
// - Kernels are recorded as CONCURRENT_KERNEL; KERNEL would serialize them. Copies between GPUs are
//   MEMCPY2.
// - Marks are external correlation ids. A record has the correlation id of the call that enqueued
//   it, and CUPTI links that id to the pushed mark. A call on another thread, such as NCCL's, gets
//   the latest mark before it.
// - CUPTI's clock is compared with the steady clock when the watch begins and when it ends. Times
//   in between are interpolated linearly, since CUPTI's clock may be adjusted meanwhile.
// - Calls that enqueue nothing, such as queries, are omitted. CUPTI records neither waits of
//   streams nor the gate.
//
// A process has one watch at a time. CUPTI accepts one subscriber, so a watch cannot be made under
// a profiler.
#pragma once

#include <memory>

#include "device/activity.h"
#include "device/host/activity_log.h"

namespace overlapbench {

// `host`: the log of the device's host streams. Throws Error with one line if no watch can be made.
std::unique_ptr<ActivityWatch> WatchByCupti(std::shared_ptr<ActivityLog> host);

}  // namespace overlapbench
