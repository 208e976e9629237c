// ForwardingDevice: forwards every call to another device, and to its watches. Derive from it to
// observe or change single calls.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>

#include "device/device.h"
#include "device/watches.h"

namespace overlapbench {

class ForwardingDevice : public Device, public DeviceWatches {
 public:
  explicit ForwardingDevice(std::unique_ptr<Device> device) : device_(std::move(device)) {}

  [[nodiscard]] Backend backend() const override { return device_->backend(); }
  [[nodiscard]] const DeviceInfo& info() const override { return device_->info(); }
  void UseInThisThread() override { device_->UseInThisThread(); }
  [[nodiscard]] Memory memory(MemoryKind kind) const override { return device_->memory(kind); }
  std::unique_ptr<Stream> CreateStream(const StreamOptions& options) override {
    return device_->CreateStream(options);
  }
  [[nodiscard]] int PriorityOf(Stream& stream) const override {
    return device_->PriorityOf(stream);
  }
  std::unique_ptr<Event> CreateEvent(const EventOptions& options) override {
    return device_->CreateEvent(options);
  }
  [[nodiscard]] double ElapsedMs(const Event& from, const Event& to) const override {
    return device_->ElapsedMs(from, to);
  }
  std::unique_ptr<Gate> CreateGate() override { return device_->CreateGate(); }
  std::unique_ptr<Graph> Record(const std::function<void(Stream&)>& enqueue) override {
    return device_->Record(enqueue);
  }
  void CopyBatch(Stream& stream, std::span<const CopyPiece> pieces) override {
    device_->CopyBatch(stream, pieces);
  }
  Buffer Allocate(std::size_t bytes, MemoryKind kind) override {
    return device_->Allocate(bytes, kind);
  }
  [[nodiscard]] bool AwaitIdle(std::chrono::milliseconds timeout) override {
    return device_->AwaitIdle(timeout);
  }

  DeviceWatches& watches() override { return *this; }
  std::unique_ptr<ThrottleWatch> Throttling() override { return device_->watches().Throttling(); }
  std::unique_ptr<ActivityWatch> Activities() override { return device_->watches().Activities(); }
  std::unique_ptr<GaugeWatch> Gauges() override { return device_->watches().Gauges(); }
  std::shared_ptr<EnergyCounter> Energy() override { return device_->watches().Energy(); }
  [[nodiscard]] DeviceUse Use() const override { return device_->watches().Use(); }
  [[nodiscard]] std::map<std::string, std::string> Surroundings() const override {
    return device_->watches().Surroundings();
  }

 private:
  std::unique_ptr<Device> device_;
};

}  // namespace overlapbench
