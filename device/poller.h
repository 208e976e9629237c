// Poller: calls a function periodically from its own thread, for as long as the object lives.
//
//   const Poller poller(std::chrono::milliseconds(20), [&] { Look(); });
//
// The first call comes one interval after construction. Each later interval starts when a call
// returns. The destructor waits for a call in progress, and for nothing else. Declare a Poller
// after everything that its function uses.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>

namespace overlapbench {

// A clock that never goes back, for what a Poller has seen.
inline double SteadyMs() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double, std::milli>(now).count();
}

class Poller {
 public:
  Poller(std::chrono::milliseconds interval, std::function<void()> look)
      : interval_(interval), look_(std::move(look)), thread_([this] { Poll(); }) {}
  ~Poller() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    stop_.notify_all();
    thread_.join();
  }
  Poller(const Poller&) = delete;
  Poller& operator=(const Poller&) = delete;

 private:
  void Poll() {
    std::unique_lock lock(mutex_);
    while (!stop_.wait_for(lock, interval_, [this] { return stopping_; })) {
      lock.unlock();
      look_();
      lock.lock();
    }
  }

  const std::chrono::milliseconds interval_;
  const std::function<void()> look_;
  std::mutex mutex_;
  std::condition_variable stop_;
  bool stopping_ = false;
  std::thread thread_;  // the last, since it uses all others
};

}  // namespace overlapbench
