#include "report/value.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

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

// Puts the interval of `figure`, times `factor`, between the number and the unit of `text`.
std::string WithInterval(const std::string& text, const Figure& figure, double factor) {
  if (!figure.interval) return text;
  const auto end = std::min(text.find(' '), text.size());
  const std::string number = text.substr(0, end);
  const double below = std::max(0.0, figure.value - figure.interval->low) * factor;
  const double above = std::max(0.0, figure.interval->high - figure.value) * factor;
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
  const Figure figure = row.Counter(counter.name);
  if (counter.unit == "ms") return WithInterval(TimeText(figure, unit), figure, unit.of_ms(1));
  return WithInterval(FormatValue(counter, figure), figure, 1);
}

std::string ShownNumber(const Row& row, const std::string& name, int decimals, double factor) {
  const Figure figure = row.Counter(name);
  return WithInterval(fmt::format("{:.{}f}", figure.value * factor, decimals), figure, factor);
}

std::string ShownTime(const Row& row, const TimeUnit& unit) {
  return WithInterval(TimeText(row.time_ms, unit), row.time_ms, unit.of_ms(1));
}

}  // namespace overlapbench
