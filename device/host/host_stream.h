// HostStream: an in-order stream on the host backend, which is a worker thread with a queue.
//
// Tasks run one after another on the worker. A kernel (EnqueueBlocks) runs its blocks on the worker
// and on the device's spare cores.
//
// The stream keeps its own clock, which says when it COULD pass a point: at the end of the work
// before it, when an event it waited for was passed, or when the point was enqueued, whichever is
// last. That is what Record records, so that the time a thread needs to wake up and pass on a mark
// is not in the measurement, while the time it needs to start real work is.
//
// What a task throws is kept and thrown by the next Synchronize; the tasks
// behind it still run, so that no event behind it is left unrecorded.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "device/device.h"
#include "device/host/core_pool.h"

namespace overlapbench {

class HostStream : public Stream {
 public:
  explicit HostStream(std::shared_ptr<CorePool> pool);
  ~HostStream() override;
  HostStream(const HostStream&) = delete;
  HostStream& operator=(const HostStream&) = delete;

  // Runs `task`, which is work, on the worker, in order.
  void Enqueue(std::function<void()> task);
  // Runs block(0) … block(blocks − 1), in any order and at once on as many cores as the device has.
  void EnqueueBlocks(int blocks, std::function<void(int)> block);

  void Record(Event& event) override;
  void Wait(const Event& event) override;
  void Copy(void* destination, const void* source, std::size_t bytes) override;
  void Synchronize(std::chrono::milliseconds timeout, const std::string& what) override;
  [[nodiscard]] void* native() const override { return nullptr; }
  [[nodiscard]] HostStream* host() override { return this; }

 private:
  using TimePoint = std::chrono::steady_clock::time_point;
  // Enqueue, for tasks that keep the clock themselves.
  void EnqueueMark(std::function<void()> task);
  void Work();
  void RunOne(const std::function<void()>& task);

  std::shared_ptr<CorePool> pool_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> tasks_;
  bool busy_ = false;
  bool stopping_ = false;
  std::exception_ptr failure_;
  TimePoint clock_ = std::chrono::steady_clock::now();  // the worker's alone
  std::thread worker_;
};

// A host event: each Record makes a new mark, so that Wait sees the recording it was enqueued
// behind.
class HostEvent : public Event {
 public:
  struct Mark {
    std::mutex mutex;
    std::condition_variable changed;
    bool passed = false;
    std::chrono::steady_clock::time_point time;

    void Pass(std::chrono::steady_clock::time_point when);
    std::chrono::steady_clock::time_point AwaitPassed();
  };

  [[nodiscard]] bool Done() const override;
  [[nodiscard]] std::shared_ptr<Mark> mark() const { return mark_; }
  std::shared_ptr<Mark> NewMark();

 private:
  std::shared_ptr<Mark> mark_;
};

}  // namespace overlapbench
