// Proves that work needs no SM: runs it while all SMs are occupied.
//
// The driver may silently move data by a kernel although copy engines were requested, as it does
// within a GPU. Here idle threads fill every SM until they are released, so no block of another
// kernel can start. Work that finishes nevertheless used no SM. After four seconds the threads end
// by themselves, and the proof fails.
#pragma once

#include <chrono>
#include <functional>

#include "device/device.h"

namespace overlapbench {

struct HeldWork {
  // Enqueues the work to the given stream.
  std::function<void(Stream&)> enqueue;
  // Runs its argument as a step of all ranks (Ranks::Together): no rank may enqueue work that waits
  // for a rank that could not hold its SMs.
  std::function<void(const std::function<void()>&)> together;
  std::chrono::milliseconds timeout;
};
// Whether the work finishes while all SMs are held. They are released after at most a second. Waits
// for the work in any case, at most for its timeout. Other streams must be idle. Called by all
// ranks together.
bool FinishesWithoutSms(Device& device, const HeldWork& work);

}  // namespace overlapbench
