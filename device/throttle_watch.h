// Watching a GPU's clocks while samples are taken.
//
// An idle GPU cools down and its clocks recover, so a query after the samples is too late. A
// PollingThrottleWatch has a thread that polls a `ThrottleSource` every 20 ms, and counts in how
// many polls it saw each reason. Short episodes between two polls still advance the GPU's violation
// counter, which the watch reads when it is created and when it is queried. A watch reports only
// what happened since its creation, so no row is blamed for an earlier one.
//
// Polling costs the GPU nothing: the source queries the driver and enqueues no work.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>

#include "device/poller.h"
#include "device/watches.h"

namespace overlapbench {

// What a GPU reports about its clocks. Called from the watch's thread and from its owner's.
class ThrottleSource {
 public:
  virtual ~ThrottleSource() = default;
  // Every reason for lowered clocks at this moment; nullopt if it cannot be read.
  [[nodiscard]] virtual std::optional<std::set<std::string>> Reasons() const = 0;
  // How long heat has lowered the clocks since the driver was loaded; nullopt if unknown.
  [[nodiscard]] virtual std::optional<std::chrono::nanoseconds> ThermalViolation() const = 0;
};

class PollingThrottleWatch : public ThrottleWatch {
 public:
  static constexpr std::chrono::milliseconds kInterval{20};

  // Polls once before it returns.
  explicit PollingThrottleWatch(std::shared_ptr<const ThrottleSource> source,
                                std::chrono::milliseconds interval = kInterval);

  // "hardware slowdown (3 of 40 looks), thermal violation (1.5 ms)"
  [[nodiscard]] std::string Reason() override;

 private:
  void Look();

  const std::shared_ptr<const ThrottleSource> source_;
  const std::optional<std::chrono::nanoseconds> violation_at_begin_;
  std::mutex mutex_;
  long looks_ = 0;
  std::map<std::string, long> seen_;  // in how many looks
  std::optional<Poller> poller_;
};

// For devices that report no reasons.
class BlindThrottleWatch : public ThrottleWatch {
 public:
  [[nodiscard]] std::string Reason() override { return ""; }
};

}  // namespace overlapbench
