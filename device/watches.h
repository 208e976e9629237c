// DeviceWatches: what happens on a device beside the suite's own work on it, and what it stands in.
//
//   const auto throttling = device.watches().Throttling();
//   ... samples ...
//   if (!throttling->Reason().empty()) ...
//
// Measuring needs none of this, but a measurement is judged by it: were the clocks lowered, did
// another process use the device, what ran when. Watches are independent of each other. Each
// reports only what happens after it was made.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "device/activity.h"
#include "device/energy_meter.h"
#include "device/gauge_watch.h"

namespace overlapbench {

// Watches, from its construction on, whether the GPU lowers its clocks. May poll from a thread of
// its own (device/throttle_watch.h), so keep one only while samples are taken.
class ThrottleWatch {
 public:
  virtual ~ThrottleWatch() = default;
  // Why the clocks were lowered since construction; "" if they were not, or if it is unknown.
  [[nodiscard]] virtual std::string Reason() = 0;
};

// How all processes use the device. Empty if it is unknown.
struct DeviceUse {
  double busy_pct = 0;  // share of about the last second in which a kernel ran
  // Ids of the processes that use the device, this one included; and of those that have it open, if
  // the driver does not know which use it. In a container they may differ from the ids inside it.
  std::vector<long> processes;
};

class DeviceWatches {
 public:
  virtual ~DeviceWatches() = default;
  virtual std::unique_ptr<ThrottleWatch> Throttling() = 0;
  // Records what is enqueued from now on (activity.h). Throws Error with one line if recording is
  // unsupported here, or if another such watch exists.
  virtual std::unique_ptr<ActivityWatch> Activities() = 0;
  // Reads the device's clock, power and links from now on (gauge_watch.h), where available.
  virtual std::unique_ptr<GaugeWatch> Gauges() = 0;
  // Never nullptr: reading says why there is no such counter here (energy_meter.h).
  virtual std::shared_ptr<EnergyCounter> Energy() = 0;
  [[nodiscard]] virtual DeviceUse Use() const = 0;
  // Facts about the device's environment for the JSON context: clocks, topology.
  [[nodiscard]] virtual std::map<std::string, std::string> Surroundings() const = 0;
};

}  // namespace overlapbench
