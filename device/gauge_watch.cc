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

double SteadyMs() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double, std::milli>(now).count();
}

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
  constexpr double kGBpsFromBytesPerMs = 1e-6;
  std::vector<GaugeReading> readings;
  for (std::size_t i = 0; i < looks_.size(); ++i) {
    const auto& [at_ms, look] = looks_[i];
    for (const auto& [name, member] : kLevels) {
      const std::optional<double>& value = look.*member;
      if (value) readings.push_back({name, at_ms, *value});
    }
    if (i + 1 == looks_.size()) break;
    const auto& [next_ms, next] = looks_[i + 1];
    for (const auto& [name, member] : kRates) {
      const std::optional<double>& from = look.*member;
      const std::optional<double>& to = next.*member;
      // No rate if the counter was reset meanwhile.
      if (!from || !to || *to < *from || next_ms <= at_ms) continue;
      const double bytes = *to - *from;
      readings.push_back({name, at_ms, bytes / (next_ms - at_ms) * kGBpsFromBytesPerMs});
    }
  }
  return readings;
}

}  // namespace overlapbench
