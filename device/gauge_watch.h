// Gauges: readings of a GPU while a row is traced (--trace_out): its SM clock, its power, and the
// traffic on its links.
//
// A `GaugeWatch` has a thread that reads a `GaugeSource` in a loop, pausing 2 ms between readings,
// and once more when it is stopped:
//
//   const auto watch = device.watches().Gauges();
//   ... samples ...
//   for (const GaugeReading& reading : watch->Stop()) ...
//
// A value that the source lacks yields no readings; without a source there are none at all. A
// reading is timestamped at its end: it may take milliseconds, and NVML reads the links' counters
// near the end. A link's rate covers the time between two readings. It is timestamped at the first
// of them, because viewers draw a value from its time until the next one.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <vector>

#include "device/poller.h"

namespace overlapbench {

// Values at one moment; those that cannot be read are empty.
struct GaugeLook {
  std::optional<double> sm_clock_MHz = {};
  std::optional<double> power_W = {};
  // Sum over all links to other GPUs, since some moment in the past.
  std::optional<double> nvlink_sent_bytes = {};
  std::optional<double> nvlink_received_bytes = {};
};

// Called from the watch's thread and from its owner's, but never concurrently.
class GaugeSource {
 public:
  virtual ~GaugeSource() = default;
  [[nodiscard]] virtual GaugeLook LookAtGauges() const = 0;
};

struct GaugeReading {
  const char* name = "";  // with its unit: "sm_clock_MHz"
  double at_ms = 0;       // the end of its look, on the steady clock, as an Activity's times
  double value = 0;
};

class GaugeWatch {
 public:
  static constexpr std::chrono::milliseconds kInterval{2};

  // Reads once before it returns. `source`: nullptr for none, and then no thread.
  explicit GaugeWatch(std::shared_ptr<const GaugeSource> source,
                      std::chrono::milliseconds interval = kInterval);

  // Ends the watch and returns the readings, grouped by look. Call it once.
  [[nodiscard]] std::vector<GaugeReading> Stop();

 private:
  struct TimedLook {
    double at_ms = 0;
    GaugeLook gauges;
  };
  void Look();
  static void AddLevels(const TimedLook& look, std::vector<GaugeReading>& readings);
  static void AddRates(const TimedLook& look, const TimedLook& next,
                       std::vector<GaugeReading>& readings);

  const std::shared_ptr<const GaugeSource> source_;
  std::vector<TimedLook> looks_;  // the poller's, until it ends
  std::optional<Poller> poller_;
};

}  // namespace overlapbench
