// Proof that copy engines make a collective's copies between GPUs: they finish while all SMs are
// held (device/cuda/sm_hold.h).
//
// The proof is one-sided. Work that finishes used no SM. Work that does not finish may merely have
// been enqueued late on one rank, so there are several attempts.
#pragma once

#include <functional>

#include "device/device.h"
#include "ranks/ranks.h"

namespace overlapbench {

// Whether what `enqueue` enqueues finishes on all ranks while the SMs of all GPUs are held. Called
// by all ranks together; all get the same result.
bool TakesNoSms(Device& device, Ranks& ranks, const std::function<void(Stream&)>& enqueue);

}  // namespace overlapbench
