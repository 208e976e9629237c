#include "device/throttle_watch.h"

#include <fmt/core.h>

#include <utility>

namespace overlapbench {

PollingThrottleWatch::PollingThrottleWatch(std::shared_ptr<const ThrottleSource> source,
                                           std::chrono::milliseconds interval)
    : source_(std::move(source)), violation_at_begin_(source_->ThermalViolation()) {
  Look();
  poller_.emplace(interval, [this] { Look(); });
}

// Queries without the lock, so that a slow driver does not delay Reason().
void PollingThrottleWatch::Look() {
  const auto reasons = source_->Reasons();
  if (!reasons) return;
  const std::lock_guard lock(mutex_);
  ++looks_;
  for (const auto& reason : *reasons) ++seen_[reason];
}

std::string PollingThrottleWatch::Reason() {
  const auto violation_now = source_->ThermalViolation();
  const std::lock_guard lock(mutex_);
  std::string text;
  for (const auto& [reason, times] : seen_) {
    text += fmt::format("{}{} ({} of {} checks)", text.empty() ? "" : ", ", reason, times, looks_);
  }
  if (violation_at_begin_ && violation_now && *violation_now > *violation_at_begin_) {
    const std::chrono::duration<double, std::milli> violation_ms =
        *violation_now - *violation_at_begin_;
    text += fmt::format("{}thermal violation ({:.3g} ms)", text.empty() ? "" : ", ",
                        violation_ms.count());
  }
  return text;
}

}  // namespace overlapbench
