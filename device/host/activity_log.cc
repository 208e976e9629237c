#include "device/host/activity_log.h"

#include <utility>

#include "device/error.h"

namespace overlapbench {
namespace {

double Milliseconds(ActivityLog::TimePoint time) {
  return std::chrono::duration<double, std::milli>(time.time_since_epoch()).count();
}

}  // namespace

ActivityLog::Note ActivityLog::Enqueued(std::uint64_t stream, Activity activity) {
  const TimePoint now = std::chrono::steady_clock::now();
  activity.mark = mark_;
  activity.stream = stream;
  activity.correlation = kHost + ++enqueued_;
  activity.call_ms = activity.enqueued_ms = Milliseconds(now);
  return {std::move(activity), now};
}

void ActivityLog::Add(Note note, TimePoint begin, TimePoint end) {
  note.activity.begin_ms = Milliseconds(begin);
  note.activity.end_ms = Milliseconds(end);
  const std::lock_guard lock(mutex_);
  if (is_on()) records_.push_back(std::move(note.activity));
}

void ActivityLog::Begin() {
  const std::lock_guard lock(mutex_);
  if (is_on()) throw Error("this device's activities are already being recorded");
  mark_ = 0;
  on_ = true;
}

std::vector<Activity> ActivityLog::End() {
  const std::lock_guard lock(mutex_);
  on_ = false;
  return std::exchange(records_, {});
}

HostActivityWatch::HostActivityWatch(std::shared_ptr<ActivityLog> log) : log_(std::move(log)) {
  log_->Begin();
}

}  // namespace overlapbench
