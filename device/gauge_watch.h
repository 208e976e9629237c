// Gauges: what a GPU shows of itself while a row is traced (--trace_out): the clock of its SMs, its
// power, and what its links carry.
//
// A `GaugeWatch` has a thread of its own that looks at a `GaugeSource`, waits for 2 ms and looks
// again. It looks once more when it is stopped:
//
//   const auto watch = device.WatchGauges();
//   ... samples ...
//   for (const GaugeReading& reading : watch->Stop()) ...
//
// A source that cannot tell a value has no readings of it, and a device without a source none at
// all. A reading stands at the end of its look: a look may take milliseconds, and NVML reads the
// links' counters near its end. A link's rate is that between two looks and stands at the first of
// them, as viewers draw a value from its time to that of the next one.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <vector>

#include "device/poller.h"

namespace overlapbench {

// At one moment; empty is what cannot be read.
struct GaugeLook {
  std::optional<double> sm_clock_MHz = {};
  std::optional<double> power_W = {};
  // By all links to other GPUs, since some moment in the past.
  std::optional<double> nvlink_sent_bytes = {};
  std::optional<double> nvlink_received_bytes = {};
};

// Called from the watch's thread and from its owner's, but not at once.
class GaugeSource {
 public:
  virtual ~GaugeSource() = default;
  [[nodiscard]] virtual GaugeLook LookAtGauges() const = 0;
};

struct GaugeReading {
  const char* name = "";  // with its unit: "sm_clock_MHz"
  double at_ms = 0;       // the end of its look, of the steady clock, as an Activity's times
  double value = 0;
};

class GaugeWatch {
 public:
  static constexpr std::chrono::milliseconds kInterval{2};

  // Looks once before it returns. Without a source it has neither thread nor readings.
  explicit GaugeWatch(std::shared_ptr<const GaugeSource> source,
                      std::chrono::milliseconds interval = kInterval);

  // Ends the watch and returns the readings, those of a look together. To be called once.
  [[nodiscard]] std::vector<GaugeReading> Stop();

 private:
  struct TimedLook {
    double at_ms = 0;
    GaugeLook look;
  };
  void Look();

  const std::shared_ptr<const GaugeSource> source_;
  std::vector<TimedLook> looks_;  // the poller's, until it ends
  std::optional<Poller> poller_;
};

}  // namespace overlapbench
