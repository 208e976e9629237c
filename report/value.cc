#include "report/value.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "fixtures/series.h"

namespace overlapbench {
namespace {

// " ±0.01": two significant digits at most, and no more decimals than the number itself has.
std::string PlusMinus(const std::string& number, double half) {
  if (!(half > 0)) return "";
  const auto point = number.find('.');
  const int most = point == std::string::npos ? 0 : static_cast<int>(number.size() - point) - 1;
  const int significant = 1 - static_cast<int>(std::floor(std::log10(half)));
  return fmt::format(" ±{:.{}f}", half, std::clamp(significant, 0, most));
}

// Puts half the interval between the number and the unit of `text`. `unit`: the suffix of the names
// of the interval's ends.
std::string WithInterval(const std::string& text, const Row& row, const std::string& name,
                         double factor, const char* unit = "") {
  const auto low = row.counters.find(fmt::format("{}{}{}", name, kLow, unit));
  const auto high = row.counters.find(fmt::format("{}{}{}", name, kHigh, unit));
  if (low == row.counters.end() || high == row.counters.end()) return text;
  const auto end = std::min(text.find(' '), text.size());
  const std::string number = text.substr(0, end);
  const double half = (high->second - low->second) / 2 * factor;
  return number + PlusMinus(number, half) + text.substr(end);
}

std::string TimeText(double ms, const TimeUnit& unit) {
  return fmt::format("{} {}", FourDigits(unit.of_ms(ms)), unit.name);
}

}  // namespace

double TimeUnit::of_ms(double ms) const {
  constexpr double kThousand = 1000;
  if (name == "s") return ms / kThousand;
  if (name == "us") return ms * kThousand;
  return name == "ns" ? ms * kThousand * kThousand : ms;
}

std::string ShownCounter(const Row& row, const Counter& counter, const TimeUnit& unit) {
  const double value = row.Counter(counter.name);
  if (counter.unit == "ms")
    return WithInterval(TimeText(value, unit), row, counter.name, unit.of_ms(1));
  return WithInterval(FormatValue(counter, value), row, counter.name, 1);
}

std::string ShownNumber(const Row& row, const std::string& name, int decimals, double factor) {
  return WithInterval(fmt::format("{:.{}f}", row.Counter(name) * factor, decimals), row, name,
                      factor);
}

std::string ShownTime(const Row& row, const TimeUnit& unit) {
  return WithInterval(TimeText(row.time_ms, unit), row, "time", unit.of_ms(1), "_ms");
}

}  // namespace overlapbench
