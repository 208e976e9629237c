#include "device/energy_meter.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "device/error.h"

namespace overlapbench {
EnergyMeter::EnergyMeter(std::shared_ptr<EnergyCounter> counter, std::chrono::milliseconds interval)
    : counter_(std::move(counter)) {
  if (counter_ == nullptr) return;
  Look();
  poller_.emplace(interval, [this] { Look(); });
}

void EnergyMeter::Look() {
  if (!fault_.empty()) return;
  try {
    const EnergyTick look{.at_ms = SteadyMs(), .total_J = counter_->Read_J()};
    if (before_ && look.total_J < before_->total_J)
      fault_ =
          fmt::format("the energy counter ({}) went backwards: it was reset", counter_->name());
    if (before_ && look.total_J > before_->total_J)
      ticks_.push_back({(before_->at_ms + look.at_ms) / 2, look.total_J});
    before_ = look;
  } catch (const Error& error) {
    fault_ = error.what();
  }
}

std::vector<EnergyTick> EnergyMeter::Stop() {
  poller_.reset();
  if (!fault_.empty()) throw Error(fault_);
  return std::move(ticks_);
}

EnergyUse UseBetween(const std::vector<EnergyTick>& ticks, double from_ms, double to_ms) {
  constexpr double kSecondsInMillisecond = 1e-3;
  const auto first = std::ranges::lower_bound(ticks, from_ms, {}, &EnergyTick::at_ms);
  const auto end = std::ranges::upper_bound(ticks, to_ms, {}, &EnergyTick::at_ms);
  if (end - first < 2) {
    throw Error(fmt::format("the energy counter {} within {:.2f} s",
                            end - first == 1 ? "changed only once" : "did not change",
                            (to_ms - from_ms) * kSecondsInMillisecond));
  }
  const EnergyTick& last = *(end - 1);
  return {last.total_J - first->total_J, (last.at_ms - first->at_ms) * kSecondsInMillisecond};
}

double PeriodOf_ms(const std::vector<EnergyTick>& ticks) {
  if (ticks.size() < 2) throw Error("the energy counter did not change twice");
  std::vector<double> distances_ms;
  for (std::size_t i = 1; i < ticks.size(); ++i)
    distances_ms.push_back(ticks[i].at_ms - ticks[i - 1].at_ms);
  const auto middle = distances_ms.begin() + std::ssize(distances_ms) / 2;
  std::ranges::nth_element(distances_ms, middle);
  return *middle;
}

}  // namespace overlapbench
