// FaultyDevice: a device that does what another does, and fails when told to (injected_fault.h).
#pragma once

#include <list>
#include <memory>
#include <string>

#include "device/device.h"

namespace overlapbench {

class FaultyDevice : public Device {
 public:
  explicit FaultyDevice(std::unique_ptr<Device> device) : device_(std::move(device)) {}

  // Flips a bit in the middle of every device buffer there is.
  void CorruptBuffers();
  // Runs a kernel that traps (cuda), or a task that fails (host).
  void BreakKernel();
  // From now on the clocks are said to be held down.
  void Throttle() { throttled_ = true; }

  [[nodiscard]] Backend backend() const override { return device_->backend(); }
  [[nodiscard]] const DeviceInfo& info() const override { return device_->info(); }
  [[nodiscard]] Memory memory(MemoryKind kind) const override { return device_->memory(kind); }
  [[nodiscard]] int priorities() const override { return device_->priorities(); }
  std::unique_ptr<Stream> CreateStream(int priority) override {
    return device_->CreateStream(priority);
  }
  std::unique_ptr<Event> CreateEvent() override { return device_->CreateEvent(); }
  std::unique_ptr<Gate> CreateGate() override { return device_->CreateGate(); }
  std::unique_ptr<Graph> Record(const std::function<void(Stream&)>& enqueue) override {
    return device_->Record(enqueue);
  }
  [[nodiscard]] std::string NoGraphs() const override { return device_->NoGraphs(); }
  void CopyBatch(Stream& stream, std::span<const CopyPiece> pieces) override {
    device_->CopyBatch(stream, pieces);
  }
  [[nodiscard]] std::string NoBatchCopy() const override { return device_->NoBatchCopy(); }
  Buffer Allocate(std::size_t bytes, MemoryKind kind) override;
  [[nodiscard]] double ElapsedMs(const Event& from, const Event& to) const override {
    return device_->ElapsedMs(from, to);
  }
  std::string ThrottleReason() override;
  [[nodiscard]] std::map<std::string, std::string> Surroundings() const override {
    return device_->Surroundings();
  }

 private:
  std::unique_ptr<Device> device_;
  std::list<std::pair<void*, std::size_t>> buffers_;  // the device's that are in use
  bool throttled_ = false;
};

}  // namespace overlapbench
