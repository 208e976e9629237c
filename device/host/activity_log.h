// ActivityLog: the activities of a device's host streams while a watch exists.
//
// All host streams of a device share one log. It is off until a watch is created; until then, it
// costs a stream one check of a flag. A stream requests a Note when an activity is enqueued and
// returns it, with its times, when the activity has ended.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "device/activity.h"

namespace overlapbench {

class ActivityLog {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;
  // What is known of an activity when it is enqueued.
  struct Note {
    Activity activity;
    TimePoint enqueued;
  };

  [[nodiscard]] bool is_on() const { return on_.load(std::memory_order_relaxed); }
  // Numbers of host streams, and correlations, begin here: CUPTI's have 32 bits.
  static constexpr std::uint64_t kHost = std::uint64_t{1} << 32U;
  // A number for a stream.
  std::uint64_t NewStream() { return kHost + streams_++; }
  Note Enqueued(std::uint64_t stream, Activity activity);
  // Adds an activity that ran, or waited, from `begin` to `end`. May be called from any thread.
  // Drops activities that end after the watch.
  void Add(Note note, TimePoint begin, TimePoint end);

  // Throws Error if the log is already on.
  void Begin();
  void Mark(std::uint64_t mark) { mark_ = mark; }
  std::vector<Activity> End();

 private:
  std::atomic<bool> on_ = false;
  std::atomic<std::uint64_t> streams_ = 0;
  std::atomic<std::uint64_t> mark_ = 0;
  std::atomic<std::uint64_t> enqueued_ = 0;
  std::mutex mutex_;
  std::vector<Activity> records_;
};

// The watch of a device that has host streams only.
class HostActivityWatch : public ActivityWatch {
 public:
  explicit HostActivityWatch(std::shared_ptr<ActivityLog> log);
  ~HostActivityWatch() override { log_->End(); }
  HostActivityWatch(const HostActivityWatch&) = delete;
  HostActivityWatch& operator=(const HostActivityWatch&) = delete;

  void Mark(std::uint64_t mark) override { log_->Mark(mark); }
  Activities Stop() override { return {log_->End(), 0}; }

 private:
  std::shared_ptr<ActivityLog> log_;
};

}  // namespace overlapbench
