// A device that remembers what it has allocated, so that a test can reach into a workload's
// buffers.
#pragma once

#include <span>
#include <utility>
#include <vector>

#include "tests/forwarding_device.h"

namespace overlapbench {

class RecordingDevice : public ForwardingDevice {
 public:
  using ForwardingDevice::ForwardingDevice;

  // The buffers allocated since the last call. Those whose owner is gone are dangling.
  std::vector<std::span<std::byte>> TakeAllocated() { return std::exchange(allocated_, {}); }

  Buffer Allocate(std::size_t bytes, MemoryKind kind) override {
    Buffer buffer = ForwardingDevice::Allocate(bytes, kind);
    allocated_.emplace_back(static_cast<std::byte*>(buffer.data()), bytes);
    return buffer;
  }

 private:
  std::vector<std::span<std::byte>> allocated_;
};

}  // namespace overlapbench
