// Shared by the tests of prepared runs: a device that logs the order of calls, and a fixture that
// lays out, prepares and runs a run. The times of delays show whether waits hold.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "backends.h"
#include "fake_workload.h"
#include "fixtures/prepared_run.h"
#include "test_ranks.h"
#include "tests/forwarding_device.h"
#include "thrown.h"

namespace overlapbench {

inline constexpr std::chrono::milliseconds kDelay(100);
inline constexpr double kDelay_ms = kDelay.count();
using Log = std::vector<std::string>;

// Logs what streams wait for, "B waits for A", and the events that they record: "A times" where
// the event takes the time, "A records" where it does not. A is the first stream made, B the
// second.
class LoggingDevice : public ForwardingDevice {
 public:
  LoggingDevice(std::unique_ptr<Device> device, Log& log)
      : ForwardingDevice(std::move(device)), log_(log) {}

  std::unique_ptr<Event> CreateEvent(const EventOptions& options) override {
    auto event = ForwardingDevice::CreateEvent(options);
    untimed_.erase(event.get());  // may have an earlier event's address
    if (options.on_host) return event;
    ++(options.timed ? events_.timed : events_.untimed);
    if (!options.timed) untimed_.insert(event.get());
    return event;
  }
  std::unique_ptr<Stream> CreateStream(const StreamOptions& options) override {
    if (options.on_host) return ForwardingDevice::CreateStream(options);
    const std::string name(1, static_cast<char>('A' + streams_++));
    return std::make_unique<LoggingStream>(ForwardingDevice::CreateStream(options), name, *this);
  }
  struct Events {
    int timed = 0;
    int untimed = 0;
    bool operator==(const Events&) const = default;
  };
  bool logs_kernels = false;  // of the host backend
  // All events created so far.
  [[nodiscard]] const Events& events() const { return events_; }

 private:
  class LoggingStream : public Stream {
   public:
    LoggingStream(std::unique_ptr<Stream> stream, std::string name, LoggingDevice& device)
        : stream_(std::move(stream)), name_(std::move(name)), device_(device) {}
    void Record(Event& event) override {
      device_.log_.push_back(name_ + (device_.untimed_.contains(&event) ? " records" : " times"));
      device_.recorded_by_[&event] = name_;
      stream_->Record(event);
    }
    void Wait(const Event& event) override {
      device_.log_.push_back(name_ + " waits for " + device_.recorded_by_[&event]);
      stream_->Wait(event);
    }
    void Copy(void* destination, const void* source, std::size_t bytes) override {
      stream_->Copy(destination, source, bytes);
    }
    void Synchronize(std::chrono::milliseconds timeout, const std::string& what) override {
      stream_->Synchronize(timeout, what);
    }
    [[nodiscard]] void* native() const override { return stream_->native(); }
    void EnqueueTask(std::function<void()> task, ActivityKind kind) override {
      stream_->EnqueueTask(std::move(task), kind);
    }
    void EnqueueBlocks(int blocks, std::function<void(int)> block) override {
      if (device_.logs_kernels) device_.log_.push_back(name_ + " runs a kernel");
      stream_->EnqueueBlocks(blocks, std::move(block));
    }

   private:
    std::unique_ptr<Stream> stream_;
    std::string name_;
    LoggingDevice& device_;
  };

  Log& log_;
  std::map<const Event*, std::string> recorded_by_;
  std::set<const Event*> untimed_;
  Events events_;
  int streams_ = 0;
};

class PreparedRunTest : public RanksOnEachBackend {
 protected:
  void SetUp() override {
    RanksOnEachBackend::SetUp();
    if (IsSkipped()) return;
    LoadDelay(machine());  // loading would be in a step's time
    device_ = std::make_unique<LoggingDevice>(OpenDevice(), log_);
    machine_ = std::make_unique<Machine>(Machine{*device_, TestRanks()});
    streams_ = std::make_unique<LaneStreams>(*device_);
    run_.name = "run";
  }

  // A work that logs its name and does `enqueue`.
  Work Fake(const std::string& name, const std::function<void(Stream&)>& enqueue = {},
            WorkClass work_class = WorkClass::kCompute) {
    Behaviour& behaviour = behaviours_[name];
    behaviour.enqueue = [this, name, enqueue](Stream& stream) {
      log_.push_back(name);
      if (enqueue) enqueue(stream);
    };
    return FakeWork(name, work_class, behaviour);
  }
  Work FakeComm(const std::string& name) { return Fake(name, {}, WorkClass::kComm); }
  // A work that makes a host thread sleep, and logs its end.
  Work Sleep(const std::string& name) {
    return Fake(name, [this, name](Stream& stream) {
      stream.Enqueue([this, name] {
        std::this_thread::sleep_for(kDelay);
        host_log_.push_back(name + " ends");
      });
    });
  }
  Work Delay(const std::string& name, std::chrono::microseconds delay = kDelay) {
    return DelayWork(*machine_, name, delay);
  }
  std::size_t AddLane(const std::string& name, bool on_host = false) {
    return schedule().AddLane({.name = name, .on_host = on_host});
  }
  // "a" and "b".
  std::pair<std::size_t, std::size_t> AddTwoLanes() { return {AddLane("a"), AddLane("b")}; }
  Schedule& schedule() { return run_.schedule; }

  // Makes the run that was laid out. Lanes have the streams A, B, ... in their order; the log is
  // empty.
  PreparedRun& Prepare() {
    for (const Work& work : schedule().works()) workloads_[work] = work->make();
    prepared_ = std::make_unique<PreparedRun>(run_, *machine_, *streams_, workloads_);
    fork_ = device_->CreateStream({});
    start_ = device_->CreateEvent({});
    log_.clear();
    return *prepared_;
  }
  // Enqueues it and waits for its end.
  void Run(int times = 1, const PreparedRun::HoldLane& hold = {}) {
    fork_->Record(*start_);
    prepared_->Enqueue(*fork_, *start_, times, hold);
    fork_->Synchronize(kPatience, "the run");
  }
  void PrepareAndRun(int times = 1, const PreparedRun::HoldLane& hold = {}) {
    Prepare();
    Run(times, hold);
  }
  [[nodiscard]] TimeSpan LaneTimes(std::size_t lane) const {
    return prepared_->LaneTimes(*start_, lane);
  }
  [[nodiscard]] TimeSpan StepTimes(std::size_t step) const {
    return prepared_->StepTimes(*start_, step);
  }
  // How many events the run needs.
  LoggingDevice::Events Events() {
    for (const Work& work : schedule().works()) workloads_[work] = work->make();
    const auto [timed, untimed] = device_->events();
    const PreparedRun prepared(run_, *machine_, *streams_, workloads_);
    return {device_->events().timed - timed, device_->events().untimed - untimed};
  }

  // Before the streams, whose work writes them.
  Log log_;
  Log host_log_;  // written by one host thread, read after its end
  std::map<std::string, Behaviour> behaviours_;
  overlapbench::Run run_;
  std::unique_ptr<LoggingDevice> device_;
  std::unique_ptr<Machine> machine_;
  Workloads workloads_;
  std::unique_ptr<LaneStreams> streams_;
  std::unique_ptr<PreparedRun> prepared_;
  std::unique_ptr<Stream> fork_;
  std::unique_ptr<Event> start_;
};

}  // namespace overlapbench
