// HostStream: an in-order stream whose work runs on a host thread. It is the host backend's stream,
// and StreamOptions::on_host makes one on every backend.
//
// Tasks run one after another on a worker thread. A kernel (EnqueueBlocks) runs its blocks on the
// worker and on the pool's spare cores.
//
// The stream has its own clock, which says when it COULD pass a point: at the end of the work
// before it, when an event it waited for was passed, or when the point was enqueued, whichever is
// latest. Record records that time. The measurement therefore excludes the time that a thread needs
// to wake up and relay an event, and includes the time that it needs to start real work.
//
// The stream keeps an exception of a task, and the next Synchronize throws it. Later tasks still
// run, so that every later event is recorded.
//
// A stream that is recorded into a graph (host_graph.h) runs nothing of what it is given.
//
// While a watch records the device's activities (activity_log.h), the stream timestamps its tasks,
// waits and gates by that clock: a task begins when the stream could begin it.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "device/activity.h"
#include "device/device.h"
#include "device/host/activity_log.h"
#include "device/host/core_pool.h"

namespace overlapbench {

class HostRecording;

class HostStream : public Stream {
 public:
  explicit HostStream(const std::shared_ptr<CorePool>& pool,
                      std::shared_ptr<ActivityLog> log = std::make_shared<ActivityLog>())
      : HostStream(pool, pool->cores(), std::move(log)) {}
  // Its kernels run on at most `most_cores` of the pool's cores.
  HostStream(std::shared_ptr<CorePool> pool, int most_cores, std::shared_ptr<ActivityLog> log);
  ~HostStream() override;
  HostStream(const HostStream&) = delete;
  HostStream& operator=(const HostStream&) = delete;

  void EnqueueTask(std::function<void()> task, ActivityKind kind) override {
    EnqueueTimed(std::move(task), {.kind = kind});
  }
  void EnqueueBlocks(int blocks, std::function<void(int)> block) override;

  // Both take a HostEvent, and throw Error for any other.
  void Record(Event& event) override;
  void Wait(const Event& event) override;
  void Copy(void* destination, const void* source, std::size_t bytes) override;
  void Synchronize(std::chrono::milliseconds timeout, const std::string& what) override;
  [[nodiscard]] void* native() const override { return nullptr; }

  // Records what is enqueued from now on, until the recording ends.
  void RecordInto(std::shared_ptr<HostRecording> recording) { recording_ = std::move(recording); }

 private:
  using TimePoint = std::chrono::steady_clock::time_point;
  // Runs `task` on the worker, in order, and logs it as `activity`. EnqueueActivity is for tasks
  // that keep the clock themselves, EnqueueMark for those that are not activities.
  void EnqueueTimed(std::function<void()> task, const Activity& activity);
  void EnqueueActivity(const Activity& activity, std::function<void()> task);
  void EnqueueMark(std::function<void()> task);
  // The open recording that this stream is a part of; nullptr: none.
  [[nodiscard]] HostRecording* Recording() const;
  void Work();
  void RunOne(const std::function<void()>& task);

  std::shared_ptr<CorePool> pool_;
  int most_cores_;
  std::shared_ptr<ActivityLog> log_;
  std::uint64_t number_ = log_->NewStream();
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> tasks_;
  bool busy_ = false;
  bool stopping_ = false;
  std::exception_ptr failure_;
  TimePoint clock_ = std::chrono::steady_clock::now();  // the worker's alone
  std::shared_ptr<HostRecording> recording_;            // the enqueueing thread's alone
  std::thread worker_;
};

// Each Record makes a new mark, so that a Wait sees the recording that was enqueued before it.
class HostEvent : public Event {
 public:
  struct Mark {
    std::mutex mutex;
    std::condition_variable changed;
    bool passed = false;
    std::chrono::steady_clock::time_point time;
    std::weak_ptr<HostRecording> recording;  // that it is a part of

    void Pass(std::chrono::steady_clock::time_point when);
    std::chrono::steady_clock::time_point AwaitPassed();
  };

  explicit HostEvent(bool timed = true) : timed_(timed) {}
  [[nodiscard]] bool Done() const override;
  [[nodiscard]] bool Await(std::chrono::milliseconds timeout) const override;
  [[nodiscard]] bool timed() const { return timed_; }
  [[nodiscard]] std::shared_ptr<Mark> mark() const { return mark_; }
  std::shared_ptr<Mark> NewMark();

 private:
  bool timed_;
  std::shared_ptr<Mark> mark_;
};

// Between two HostEvents. Throws Error if one of them has no time or has not been passed.
double HostElapsedMs(const Event& from, const Event& to);

// Holds host streams. Its state outlives it while a stream waits.
class HostGate : public Gate {
 public:
  void Arm(Stream& stream) override;
  void Release() override;

 private:
  // Arm() begins a generation; Release() ends all generations begun so far.
  struct State {
    std::mutex mutex;
    std::condition_variable changed;
    long armed = 0;
    long released = 0;
  };
  std::shared_ptr<State> state_ = std::make_shared<State>();
};

}  // namespace overlapbench
