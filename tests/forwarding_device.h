// ForwardingDevice: forwards every call to another device. Derive from it to observe or change
// single calls.
#pragma once

#include <memory>
#include <utility>

#include "device/activity.h"
#include "device/device.h"
#include "device/gauge_watch.h"

namespace overlapbench {

class ForwardingDevice : public Device {
 public:
  explicit ForwardingDevice(std::unique_ptr<Device> device) : device_(std::move(device)) {}

  [[nodiscard]] Backend backend() const override { return device_->backend(); }
  [[nodiscard]] const DeviceInfo& info() const override { return device_->info(); }
  void UseInThisThread() override { device_->UseInThisThread(); }
  [[nodiscard]] Memory memory(MemoryKind kind) const override { return device_->memory(kind); }
  [[nodiscard]] int priorities() const override { return device_->priorities(); }
  std::unique_ptr<Stream> CreateStream(const StreamOptions& options) override {
    return device_->CreateStream(options);
  }
  [[nodiscard]] int PriorityOf(Stream& stream) const override {
    return device_->PriorityOf(stream);
  }
  std::unique_ptr<Event> CreateEvent() override { return device_->CreateEvent(); }
  std::unique_ptr<Event> CreateUntimedEvent() override { return device_->CreateUntimedEvent(); }
  std::unique_ptr<Stream> CreateHostStream() override { return device_->CreateHostStream(); }
  std::unique_ptr<Event> CreateHostEvent() override { return device_->CreateHostEvent(); }
  std::unique_ptr<Gate> CreateGate() override { return device_->CreateGate(); }
  std::unique_ptr<Graph> Record(const std::function<void(Stream&)>& enqueue) override {
    return device_->Record(enqueue);
  }
  [[nodiscard]] std::string NoGraphs() const override { return device_->NoGraphs(); }
  void CopyBatch(Stream& stream, std::span<const CopyPiece> pieces) override {
    device_->CopyBatch(stream, pieces);
  }
  [[nodiscard]] std::string NoBatchCopy() const override { return device_->NoBatchCopy(); }
  Buffer Allocate(std::size_t bytes, MemoryKind kind) override {
    return device_->Allocate(bytes, kind);
  }
  [[nodiscard]] bool AwaitIdle(std::chrono::milliseconds timeout) override {
    return device_->AwaitIdle(timeout);
  }
  [[nodiscard]] double ElapsedMs(const Event& from, const Event& to) const override {
    return device_->ElapsedMs(from, to);
  }
  std::unique_ptr<ThrottleWatch> WatchThrottling() override { return device_->WatchThrottling(); }
  std::unique_ptr<ActivityWatch> WatchActivities() override { return device_->WatchActivities(); }
  std::unique_ptr<GaugeWatch> WatchGauges() override { return device_->WatchGauges(); }
  [[nodiscard]] DeviceUse Use() const override { return device_->Use(); }
  [[nodiscard]] std::map<std::string, std::string> Surroundings() const override {
    return device_->Surroundings();
  }

 private:
  std::unique_ptr<Device> device_;
};

}  // namespace overlapbench
