#include "device/gauge_watch.h"

#include <array>
#include <utility>

namespace overlapbench {
namespace {

struct Gauge {
  const char* name;
  std::optional<double> GaugeLook::* member;
};
constexpr std::array<Gauge, 2> kLevels = {
    {{"sm_clock_MHz", &GaugeLook::sm_clock_MHz}, {"power_W", &GaugeLook::power_W}}};
// Counters of bytes, read as rates.
constexpr std::array<Gauge, 2> kRates = {
    {{"nvlink_sent_GBps", &GaugeLook::nvlink_sent_bytes},
     {"nvlink_received_GBps", &GaugeLook::nvlink_received_bytes}}};

}  // namespace

GaugeWatch::GaugeWatch(std::shared_ptr<const GaugeSource> source,
                       std::chrono::milliseconds interval)
    : source_(std::move(source)) {
  if (source_ == nullptr) return;
  Look();
  poller_.emplace(interval, [this] { Look(); });
}

void GaugeWatch::Look() {
  const GaugeLook look = source_->LookAtGauges();
  looks_.push_back({SteadyMs(), look});
}

std::vector<GaugeReading> GaugeWatch::Stop() {
  if (source_ == nullptr) return {};
  poller_.reset();
  Look();
  std::vector<GaugeReading> readings;
  const TimedLook* before = nullptr;
  for (const TimedLook& look : looks_) {
    if (before != nullptr) AddRates(*before, look, readings);
    AddLevels(look, readings);
    before = &look;
  }
  return readings;
}

void GaugeWatch::AddLevels(const TimedLook& look, std::vector<GaugeReading>& readings) {
  for (const auto& [name, member] : kLevels) {
    const std::optional<double>& value = look.gauges.*member;
    if (value) readings.push_back({name, look.at_ms, *value});
  }
}

// No rate if the counter was reset meanwhile.
void GaugeWatch::AddRates(const TimedLook& look, const TimedLook& next,
                          std::vector<GaugeReading>& readings) {
  constexpr double kGBpsFromBytesPerMs = 1e-6;
  for (const auto& [name, member] : kRates) {
    const std::optional<double>& from = look.gauges.*member;
    const std::optional<double>& to = next.gauges.*member;
    if (!from || !to || *to < *from) continue;
    const double rate_GBps = (*to - *from) / (next.at_ms - look.at_ms) * kGBpsFromBytesPerMs;
    readings.push_back({name, look.at_ms, rate_GBps});
  }
}

}  // namespace overlapbench
