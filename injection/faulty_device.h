// FaultyDevice: forwards to another device, and fails on request (injected_fault.h).
#pragma once

#include <list>
#include <memory>
#include <string>
#include <utility>

#include "device/forwarding_device.h"

namespace overlapbench {

class FaultyDevice : public ForwardingDevice {
 public:
  using ForwardingDevice::ForwardingDevice;

  // Flips a bit in the middle of every device buffer in use.
  void CorruptBuffers();
  // Runs a kernel that traps (cuda), or a task that fails (host).
  void BreakKernel();
  // From now on every throttle watch reports throttled clocks, even one made before.
  void Throttle() { throttled_ = true; }

  Buffer Allocate(std::size_t bytes, MemoryKind kind) override;
  std::unique_ptr<ThrottleWatch> WatchThrottling() override;

 private:
  std::list<std::pair<void*, std::size_t>> buffers_;  // the device buffers in use
  bool throttled_ = false;
};

}  // namespace overlapbench
