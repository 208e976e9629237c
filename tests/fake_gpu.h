// A fake GPU: a host device that claims to be of the cuda backend, for tests of what happens while
// work is enqueued.
//
// Its streams do not look like host streams, so callables run on the enqueueing thread. Work may
// also run elsewhere, on no stream of the device, where no gate holds it. While it runs, the memory
// is busy, and a stream takes 12 ms to record an event. The clock counts in multiples of 12 ms, so
// shorter delays on a busy host measure as 0.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "tests/forwarding_device.h"

namespace overlapbench {

// Pieces of work that run one after the other, each for a time that is known.
class WorkElsewhere {
 public:
  void Enqueue(std::chrono::milliseconds duration) {
    end_ = std::max(end_.load(), Clock::now()) + duration;
  }
  [[nodiscard]] bool IsBusy() const { return Clock::now() < end_.load(); }
  // Whether it ends before the timeout does.
  bool Await(std::chrono::milliseconds timeout) const {
    std::this_thread::sleep_until(std::min(end_.load(), Clock::now() + timeout));
    return !IsBusy();
  }

 private:
  using Clock = std::chrono::steady_clock;
  std::atomic<Clock::time_point> end_{Clock::time_point{}};
};

// What an event takes while the memory is busy.
inline constexpr std::chrono::milliseconds kBesideWork(12);

class FakeGpuStream : public Stream {
 public:
  FakeGpuStream(std::unique_ptr<Stream> stream, const WorkElsewhere& elsewhere)
      : stream_(std::move(stream)), elsewhere_(elsewhere) {}
  void Record(Event& event) override {
    stream_->Enqueue([this] {
      if (elsewhere_.IsBusy()) std::this_thread::sleep_for(kBesideWork);
    });
    stream_->Record(event);
  }
  void Wait(const Event& event) override { stream_->Wait(event); }
  void Copy(void* destination, const void* source, std::size_t bytes) override {
    stream_->Copy(destination, source, bytes);
  }
  void Synchronize(std::chrono::milliseconds timeout, const std::string& what) override {
    stream_->Synchronize(timeout, what);
  }
  [[nodiscard]] void* native() const override { return const_cast<FakeGpuStream*>(this); }
  [[nodiscard]] Stream& inner() { return *stream_; }

 private:
  std::unique_ptr<Stream> stream_;
  const WorkElsewhere& elsewhere_;
};

class FakeGpuGate : public Gate {
 public:
  explicit FakeGpuGate(std::unique_ptr<Gate> gate) : gate_(std::move(gate)) {}
  void Arm(Stream& stream) override {
    gate_->Arm(static_cast<FakeGpuStream*>(stream.native())->inner());
  }
  void Release() override { gate_->Release(); }

 private:
  std::unique_ptr<Gate> gate_;
};

class FakeGpu : public ForwardingDevice {
 public:
  // `elsewhere` must outlive this.
  explicit FakeGpu(const WorkElsewhere& elsewhere)
      : ForwardingDevice(OpenHostDevice(2)), elsewhere_(elsewhere) {}
  [[nodiscard]] Backend backend() const override { return Backend::kCuda; }
  std::unique_ptr<Stream> CreateStream(const StreamOptions& options) override {
    if (options.on_host) return ForwardingDevice::CreateStream(options);
    return std::make_unique<FakeGpuStream>(ForwardingDevice::CreateStream(options), elsewhere_);
  }
  std::unique_ptr<Gate> CreateGate() override {
    return std::make_unique<FakeGpuGate>(ForwardingDevice::CreateGate());
  }
  [[nodiscard]] double ElapsedMs(const Event& from, const Event& to) const override {
    const double tick_ms = kBesideWork.count();
    return std::floor(ForwardingDevice::ElapsedMs(from, to) / tick_ms) * tick_ms;
  }
  [[nodiscard]] bool AwaitIdle(std::chrono::milliseconds timeout) override {
    return elsewhere_.Await(timeout);
  }

 private:
  const WorkElsewhere& elsewhere_;
};

}  // namespace overlapbench
