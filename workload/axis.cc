#include "workload/axis.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "device/error.h"
#include "device/text.h"
#include "workload/size.h"

namespace overlapbench {
namespace {

std::string CanonicalBytes(std::string_view text) {
  const auto bytes = ReadSize(text);
  if (!bytes || *bytes <= 0) {
    throw UsageError(
        "'" + std::string(text) +
        "' is not a size: write a positive number of bytes, as in 4096, 64K, 1M or 2G");
  }
  return std::to_string(*bytes);
}

std::string CanonicalInteger(std::string_view text, long least, long most) {
  const auto value = ReadSize(text);
  if (!value || *value < least || *value > most) {
    throw UsageError("'" + std::string(text) + "' is not a whole number from " +
                     std::to_string(least) + " to " + std::to_string(most));
  }
  return std::to_string(*value);
}

std::string CanonicalGrid(std::string_view text) {
  constexpr long kMost = 32768;
  const auto cross = text.find('x');
  const long x = WholeNumber(text.substr(0, cross)).value_or(0);
  const long y =
      cross == std::string_view::npos ? x : WholeNumber(text.substr(cross + 1)).value_or(0);
  if (std::min(x, y) < 1 || std::max(x, y) > kMost) {
    throw UsageError("'" + std::string(text) + "' is not a grid: write XxY blocks, as in 16x16");
  }
  return std::to_string(x) + "x" + std::to_string(y);
}

std::string CanonicalChoice(std::string_view text, const std::vector<std::string>& choices) {
  if (std::ranges::find(choices, text) != choices.end()) return std::string(text);
  throw UsageError(fmt::format("'{}' is not one of {}{}", text, fmt::join(choices, ", "),
                               DidYouMean(text, choices)));
}

Axis Finish(Axis axis, std::string_view defaults, std::string_view standing) {
  axis.values = ReadValues(axis, defaults);
  if (!standing.empty()) axis.standing = axis.canonical(standing);
  return axis;
}

}  // namespace

Axis BytesAxis(std::string name, std::string help, std::string_view defaults,
               std::string_view standing) {
  return Finish({std::move(name), std::move(help), CanonicalBytes, {}, "", {}}, defaults, standing);
}

Axis IntegerAxis(std::string name, std::string help, long least, long most,
                 std::string_view defaults, std::string_view standing) {
  auto canonical = [least, most](std::string_view text) {
    return CanonicalInteger(text, least, most);
  };
  return Finish({std::move(name), std::move(help), canonical, {}, "", {}}, defaults, standing);
}

Axis GridAxis(std::string name, std::string help, std::string_view defaults) {
  return Finish({std::move(name), std::move(help), CanonicalGrid, {}, "", {}}, defaults, "");
}

Axis ChoiceAxis(std::string name, std::string help, std::vector<std::string> choices,
                std::string_view defaults, std::string_view standing) {
  auto canonical = [choices](std::string_view text) { return CanonicalChoice(text, choices); };
  return Finish({std::move(name), std::move(help), canonical, {}, "", std::move(choices)}, defaults,
                standing);
}

Axis OrWord(Axis axis, std::string_view word, std::string_view defaults,
            std::string_view standing) {
  axis.canonical = [word = std::string(word),
                    canonical = std::move(axis.canonical)](std::string_view text) {
    if (text == word) return word;
    try {
      return canonical(text);
    } catch (const UsageError& error) {
      throw UsageError(error.what() + DidYouMean(text, {word}));
    }
  };
  return Finish(std::move(axis), defaults, standing);
}

Axis OrAuto(Axis axis, std::string_view defaults) {
  return OrWord(std::move(axis), kAuto, defaults);
}

Axis InUnitsOf(long unit, Axis axis) {
  axis.unit = unit;
  return axis;
}

std::vector<std::string> ReadValues(const Axis& axis, std::string_view text) {
  std::vector<std::string> values;
  while (true) {
    const auto comma = text.find(',');
    try {
      values.push_back(axis.canonical(text.substr(0, comma)));
    } catch (const UsageError& error) {
      throw UsageError("axis " + axis.name + ": " + error.what());
    }
    if (comma == std::string_view::npos) return values;
    text.remove_prefix(comma + 1);
  }
}

void Settings::Set(const Axis& axis, std::string value) {
  entries_.push_back({axis.name, std::move(value), axis.standing});
}

bool Settings::Has(std::string_view axis) const {
  return std::ranges::find(entries_, axis, &Entry::axis) != entries_.end();
}

const std::string& Settings::Text(std::string_view axis) const {
  const auto entry = std::ranges::find(entries_, axis, &Entry::axis);
  if (entry == entries_.end()) throw Error("the benchmark has no axis '" + std::string(axis) + "'");
  return entry->value;
}

long Settings::Integer(std::string_view axis) const { return std::stol(Text(axis)); }

GridShape Settings::Grid(std::string_view axis) const {
  const auto& text = Text(axis);
  const auto cross = text.find('x');
  return {std::stoi(text.substr(0, cross)), std::stoi(text.substr(cross + 1))};
}

std::string Settings::NameSuffix() const {
  std::string suffix;
  for (const auto& entry : entries_) {
    const bool written = entry.standing && entry.value != *entry.standing;
    if (written) suffix += "/" + entry.axis + ":" + entry.value;
  }
  return suffix;
}

Settings Settings::With(std::string_view axis, std::string value) const {
  Settings changed = *this;
  const auto entry = std::ranges::find(changed.entries_, axis, &Entry::axis);
  if (entry == changed.entries_.end())
    changed.entries_.push_back({std::string(axis), std::move(value), std::nullopt});
  else
    entry->value = std::move(value);
  return changed;
}

Settings SettingsOf(const std::vector<Axis>& axes,
                    const std::vector<std::pair<std::string, std::string>>& values) {
  Settings settings;
  for (const Axis& axis : axes) {
    const auto given =
        std::ranges::find(values, axis.name, [](const auto& one) { return one.first; });
    if (given != values.end())
      settings.Set(axis, axis.canonical(given->second));
    else
      settings.Set(axis, axis.standing.empty() ? axis.values.front() : axis.standing);
  }
  return settings;
}

AxisOverride ParseAxisFlag(std::string_view text) {
  const auto equals = text.find('=');
  if (equals == std::string_view::npos || equals == 0 || equals + 1 == text.size()) {
    throw UsageError("--axis takes NAME=V1,V2,…, as in --axis grid=1x1,16x16; got '" +
                     std::string(text) + "'");
  }
  return {std::string(text.substr(0, equals)), std::string(text.substr(equals + 1))};
}

std::vector<Settings> Combinations(const std::vector<Axis>& axes) {
  std::vector<Settings> all(1);
  for (const auto& axis : axes) {
    std::vector<Settings> longer;
    for (const auto& settings : all) {
      for (const auto& value : axis.values) {
        longer.push_back(settings);
        longer.back().Set(axis, value);
      }
    }
    all = std::move(longer);
  }
  return all;
}

Settings InUnits(const std::vector<Axis>& axes, Settings settings) {
  for (const Axis& axis : axes) {
    if (axis.unit == 1) continue;
    const long size = axis.size ? axis.size(settings) : settings.Integer(axis.name);
    const long units = std::max(1L, (2 * size + axis.unit) / (2 * axis.unit));
    if (units * axis.unit != size)
      settings =
          settings.With(axis.name, ReadValues(axis, std::to_string(units * axis.unit)).front());
  }
  return settings;
}

}  // namespace overlapbench
