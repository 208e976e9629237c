#include "report/value.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <optional>

namespace overlapbench {
namespace {

// nullopt if the row does not have it.
std::optional<Figure> FigureOf(const Row& row, const std::string& counter) {
  if (counter == "time") return row.time_ms;
  const auto found = row.counters.find(counter);
  return found == row.counters.end() ? std::nullopt : std::optional(found->second);
}

// "0.5600", "12346": the zeros show how exactly the value is known, so they stay.
std::string FourDigits(double value) {
  constexpr std::ptrdiff_t kDigits = 4;
  constexpr double kLong = 1e9;
  std::string text = fmt::format("{:.4g}", value);
  if (text.find("e+") != std::string::npos && std::abs(value) < kLong)
    return fmt::format("{:.0f}", value);
  const auto first = text.find_first_of("123456789");
  if (first == std::string::npos || text.find('e') != std::string::npos) return text;
  const auto digits = std::count_if(text.begin() + static_cast<std::ptrdiff_t>(first), text.end(),
                                    [](char c) { return c != '.'; });
  if (digits >= kDigits) return text;
  if (text.find('.') == std::string::npos) text += '.';
  return text.append(static_cast<std::size_t>(kDigits - digits), '0');
}

std::string NumberText(const Counter& counter, double value) {
  if (counter.unit.empty()) return fmt::format("{:.2f}", value);
  if (counter.unit == "count" || counter.unit == "bool") return fmt::format("{:.0f}", value);
  if (counter.unit == "%") return fmt::format("{:.1f}", value);
  return FourDigits(value);
}

// To the farther end of the interval.
double Reach(double value, const Interval& interval) {
  return std::max({0.0, value - interval.low, interval.high - value});
}

int Decimals(const std::string& number) {
  const auto point = number.find('.');
  return point == std::string::npos ? 0 : static_cast<int>(number.size() - point) - 1;
}

}  // namespace

double TimeUnit::of_ms(double ms) const {
  constexpr double kThousand = 1000;
  if (name == "s") return ms / kThousand;
  if (name == "us") return ms * kThousand;
  return name == "ns" ? ms * kThousand * kThousand : ms;
}

std::string ShownUnit(const Counter& counter, const TimeUnit& unit) {
  if (counter.unit == "count" || counter.unit == "bool") return "";
  return counter.unit == "ms" ? unit.name : counter.unit;
}

bool SaysNothing(const Row& row, const Counter& counter) {
  constexpr double kPercent = 100;
  constexpr double kUsPerMs = 1000;
  const std::optional<Figure> figure = FigureOf(row, counter.name);
  if (!figure || !figure->interval) return false;
  const double whole = counter.unit.empty() ? 1 : (counter.unit == "%" ? kPercent : 0);
  const double time = row.time_ms.value * (counter.unit == "us" ? kUsPerMs : 1);
  const bool is_signed = counter.range == Range::kSigned || counter.range == Range::kAtMostOne;
  const double most =
      is_signed ? (whole > 0 ? whole : time) : std::max(whole, std::abs(figure->value));
  return 2 * Reach(figure->value, *figure->interval) > most;
}

ShownFigure Shown(const Row& row, const Counter& counter, const TimeUnit& unit) {
  const std::optional<Figure> figure = FigureOf(row, counter.name);
  if (!figure) return {};
  if (SaysNothing(row, counter)) return {"?", ""};
  const double factor = counter.unit == "ms" ? unit.of_ms(1) : 1;
  const double value = figure->value * factor;
  std::string number = NumberText(counter, value);
  if (!figure->interval) return {number, ""};
  const double reach = factor * Reach(figure->value, *figure->interval);
  if (!(reach > 0) || number.find('e') != std::string::npos) return {number, ""};
  const int decimals =
      std::clamp(-static_cast<int>(std::floor(std::log10(reach))), 0, Decimals(number));
  // Minus nothing becomes nothing.
  const double scale = std::pow(10, decimals);
  const double rounded = std::round(value * scale) / scale + 0.0;
  return {fmt::format("{:.{}f}", rounded, decimals), fmt::format("±{:.{}f}", reach, decimals)};
}

}  // namespace overlapbench
