// Work that needs no SM, and work that only seems so.
//
// A library may move data by a kernel where copy engines were asked for, without saying so. Here
// every SM is held by threads that do nothing until they are let go, as many as the SMs can have,
// so no block of another kernel starts. What finishes all the same took no SM.
#pragma once

#include <chrono>
#include <functional>

#include "device/device.h"

namespace overlapbench {

// Whether the work that `enqueue` enqueues to the stream it is given finishes while all SMs are
// held: within a second, after which they are let go. Waits for the work in any case, at most for
// `timeout`. Other streams must be idle.
bool FinishesWithoutSms(Device& device, const std::function<void(Stream&)>& enqueue,
                        std::chrono::milliseconds timeout);

}  // namespace overlapbench
