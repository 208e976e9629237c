// WatchedStream: a stream that knows whether anything was enqueued on it since the last wait.
#pragma once

#include <chrono>
#include <string>

#include "device/device.h"

namespace overlapbench {

class WatchedStream : public Stream {
 public:
  explicit WatchedStream(Stream& stream) : stream_(stream) {}
  [[nodiscard]] bool pending() const { return pending_; }
  void Record(Event& event) override { Enqueue().Record(event); }
  void Wait(const Event& event) override { Enqueue().Wait(event); }
  void Copy(void* destination, const void* source, std::size_t bytes) override {
    Enqueue().Copy(destination, source, bytes);
  }
  void Synchronize(std::chrono::milliseconds timeout, const std::string& what) override {
    stream_.Synchronize(timeout, what);
    pending_ = false;
  }
  [[nodiscard]] void* native() const override { return Enqueue().native(); }
  [[nodiscard]] HostStream* host() override { return Enqueue().host(); }

 private:
  Stream& Enqueue() const {
    pending_ = true;
    return stream_;
  }

  Stream& stream_;
  mutable bool pending_ = false;
};

}  // namespace overlapbench
