// FaultyDevice: forwards to another device, and fails on request (injected_fault.h).
#pragma once

#include <list>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "tests/forwarding_device.h"

namespace overlapbench {

class FaultyDevice : public ForwardingDevice {
 public:
  // `faults`: what the context says of them.
  explicit FaultyDevice(std::unique_ptr<Device> device, std::string faults = "")
      : ForwardingDevice(std::move(device)), faults_(std::move(faults)) {}

  // Flips a bit in the middle of every device buffer in use.
  void CorruptBuffers();
  // Runs a kernel that traps (cuda), or a task that fails (host).
  void BreakKernel();
  // From now on every throttle watch reports throttled clocks, even one made before.
  void Throttle() { throttled_ = true; }

  Buffer Allocate(std::size_t bytes, MemoryKind kind) override;
  std::unique_ptr<ThrottleWatch> Throttling() override;
  [[nodiscard]] std::map<std::string, std::string> Surroundings() const override;

 private:
  std::string faults_;
  std::list<std::pair<void*, std::size_t>> buffers_;  // the device buffers in use
  bool throttled_ = false;
};

}  // namespace overlapbench
