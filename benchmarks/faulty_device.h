// FaultyDevice: a device that does what another does, and fails when told to (injected_fault.h).
#pragma once

#include <list>
#include <string>
#include <utility>

#include "device/forwarding_device.h"

namespace overlapbench {

class FaultyDevice : public ForwardingDevice {
 public:
  using ForwardingDevice::ForwardingDevice;

  // Flips a bit in the middle of every device buffer there is.
  void CorruptBuffers();
  // Runs a kernel that traps (cuda), or a task that fails (host).
  void BreakKernel();
  // From now on the clocks are said to be held down.
  void Throttle() { throttled_ = true; }

  Buffer Allocate(std::size_t bytes, MemoryKind kind) override;
  std::string ThrottleReason() override;

 private:
  std::list<std::pair<void*, std::size_t>> buffers_;  // the device's that are in use
  bool throttled_ = false;
};

}  // namespace overlapbench
