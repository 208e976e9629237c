// Energy: a counter of what a device has used, and a meter that reads it.
//
// Such counters advance in ticks: NVML's by what 100 ms used, on an H100; the CPU's every
// millisecond. A difference of two readings may be off by a tick at either end. So a meter reads
// the counter every millisecond from a thread of its own, and records when it changes. What was
// used is the difference between two ticks, over the time between them:
//
//   EnergyMeter meter(device.watches().Energy());
//   ... work from from_ms to to_ms, and nothing else ...
//   const EnergyUse use = UseBetween(meter.Stop(), from_ms, to_ms);
//
// A tick is timestamped in the middle between the two readings that enclose it.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "device/poller.h"

namespace overlapbench {

// Called from the meter's thread and from its owner's, but never concurrently.
class EnergyCounter {
 public:
  virtual ~EnergyCounter() = default;
  // Since some moment in the past. Throws Error if it cannot be read: why, in one line.
  [[nodiscard]] virtual double Read_J() = 0;
  [[nodiscard]] virtual std::string name() const = 0;
  // Whether it counts what all processes of this machine use: the same for each of them.
  [[nodiscard]] virtual bool is_of_machine() const = 0;
};

struct EnergyTick {
  double at_ms = 0;  // on the steady clock
  double total_J = 0;
};

class EnergyMeter {
 public:
  static constexpr std::chrono::milliseconds kInterval{1};

  // Reads once before it returns. `counter`: nullptr for none, and then there are no ticks.
  explicit EnergyMeter(std::shared_ptr<EnergyCounter> counter,
                       std::chrono::milliseconds interval = kInterval);

  // Ends the meter and returns the ticks. Throws Error if the counter could not be read, or went
  // backwards. Call it once.
  [[nodiscard]] std::vector<EnergyTick> Stop();

 private:
  void Look();

  const std::shared_ptr<EnergyCounter> counter_;
  std::vector<EnergyTick> ticks_;     // the poller's, until it ends, as all below
  std::optional<EnergyTick> before_;  // the last look
  std::string fault_;
  std::optional<Poller> poller_;
};

struct EnergyUse {
  double joules = 0;
  double seconds = 0;

  [[nodiscard]] double watts() const { return joules / seconds; }
};

// Between the first tick at `from_ms` or later and the last one until `to_ms`. Throws Error without
// two of them.
EnergyUse UseBetween(const std::vector<EnergyTick>& ticks, double from_ms, double to_ms);

// The median distance of the ticks. Throws Error without two of them.
double PeriodOf_ms(const std::vector<EnergyTick>& ticks);

}  // namespace overlapbench
