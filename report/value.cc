#include "report/value.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "fixtures/series.h"

namespace overlapbench {
namespace {

// " ±0.01", or " -0.01 +0.09": two significant digits of the larger reach at most, and no more
// decimals than the number itself has.
std::string Reaches(const std::string& number, double below, double above) {
  constexpr double kAlike = 1.5;  // the larger reach then stands for both
  const double larger = std::max(below, above);
  if (!(larger > 0)) return "";
  const auto point = number.find('.');
  const int most = point == std::string::npos ? 0 : static_cast<int>(number.size() - point) - 1;
  const int significant = 1 - static_cast<int>(std::floor(std::log10(larger)));
  const int decimals = std::clamp(significant, 0, most);
  if (larger <= kAlike * std::min(below, above)) return fmt::format(" ±{:.{}f}", larger, decimals);
  return fmt::format(" -{:.{}f} +{:.{}f}", below, decimals, above, decimals);
}

// Puts the interval between the number and the unit of `text`. `value`: of the number, before
// `factor`. `unit`: the suffix of the names of the interval's ends.
std::string WithInterval(const std::string& text, double value, const Row& row,
                         const std::string& name, double factor, const char* unit = "") {
  const auto low = row.counters.find(fmt::format("{}{}{}", name, kLow, unit));
  const auto high = row.counters.find(fmt::format("{}{}{}", name, kHigh, unit));
  if (low == row.counters.end() || high == row.counters.end()) return text;
  const auto end = std::min(text.find(' '), text.size());
  const std::string number = text.substr(0, end);
  const double below = std::max(0.0, value - low->second) * factor;
  const double above = std::max(0.0, high->second - value) * factor;
  return number + Reaches(number, below, above) + text.substr(end);
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
    return WithInterval(TimeText(value, unit), value, row, counter.name, unit.of_ms(1));
  return WithInterval(FormatValue(counter, value), value, row, counter.name, 1);
}

std::string ShownNumber(const Row& row, const std::string& name, int decimals, double factor) {
  const double value = row.Counter(name);
  return WithInterval(fmt::format("{:.{}f}", value * factor, decimals), value, row, name, factor);
}

std::string ShownTime(const Row& row, const TimeUnit& unit) {
  return WithInterval(TimeText(row.time_ms, unit), row.time_ms, row, "time", unit.of_ms(1), "_ms");
}

}  // namespace overlapbench
