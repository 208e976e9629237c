// WatchedStream: a stream that knows whether anything was enqueued on it since the last wait.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <utility>

#include "device/device.h"

namespace overlapbench {

class WatchedStream : public Stream {
 public:
  explicit WatchedStream(Stream& stream) : stream_(stream) {}
  [[nodiscard]] bool pending() const { return pending_; }
  void Record(Event& event) override { Pending().Record(event); }
  void Wait(const Event& event) override { Pending().Wait(event); }
  void Copy(void* destination, const void* source, std::size_t bytes) override {
    Pending().Copy(destination, source, bytes);
  }
  void Synchronize(std::chrono::milliseconds timeout, const std::string& what) override {
    stream_.Synchronize(timeout, what);
    pending_ = false;
  }
  [[nodiscard]] void* native() const override { return Pending().native(); }
  void EnqueueTask(std::function<void()> task, ActivityKind kind) override {
    Pending().EnqueueTask(std::move(task), kind);
  }
  void EnqueueBlocks(int blocks, std::function<void(int)> block) override {
    Pending().EnqueueBlocks(blocks, std::move(block));
  }

 private:
  Stream& Pending() const {
    pending_ = true;
    return stream_;
  }

  Stream& stream_;
  mutable bool pending_ = false;
};

}  // namespace overlapbench
