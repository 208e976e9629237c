// Axes: what a benchmark varies, and how its values are written.
//
// An axis has a name, a way to read one value, and default values. Values are kept as text in their
// canonical form ("64M" is read as "67108864"), because that text is part of a benchmark's name,
// and a name identifies a configuration for ever. For the same reason an axis may have a `standing`
// value, which is not written: an axis added later leaves all earlier names as they were.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace overlapbench {

struct Axis {
  std::string name;
  std::string help;
  // The canonical form of a value; throws UsageError saying what a value looks like.
  std::function<std::string(std::string_view)> canonical;
  std::vector<std::string> values;  // canonical
  std::string standing;             // canonical; "" when every value is written
};

struct GridShape {
  int x = 1;
  int y = 1;
};

// Each takes default values as a user would write them, separated by commas, and the standing
// value.
Axis BytesAxis(std::string name, std::string help, std::string_view defaults,
               std::string_view standing = "");
Axis IntegerAxis(std::string name, std::string help, long least, long most,
                 std::string_view defaults, std::string_view standing = "");
Axis GridAxis(std::string name, std::string help, std::string_view defaults);
Axis ChoiceAxis(std::string name, std::string help, std::vector<std::string> choices,
                std::string_view defaults, std::string_view standing = "");

// Reads "V1,V2" as values of `axis`; throws UsageError naming the axis and the value.
std::vector<std::string> ReadValues(const Axis& axis, std::string_view text);

// One value for each axis of a benchmark.
class Settings {
 public:
  void Set(const Axis& axis, std::string value);
  [[nodiscard]] bool Has(std::string_view axis) const;
  [[nodiscard]] const std::string& Text(std::string_view axis) const;
  [[nodiscard]] long Integer(std::string_view axis) const;
  [[nodiscard]] GridShape Grid(std::string_view axis) const;
  // "/bytes:67108864/grid:16x16", without the axes that stand at their standing value.
  [[nodiscard]] std::string NameSuffix() const;

 private:
  struct Entry {
    std::string axis;
    std::string value;
    bool written;
  };
  std::vector<Entry> entries_;
};

// The axes at the values given, and else at their standing or first values. Throws UsageError for a
// value that an axis does not take.
Settings SettingsOf(const std::vector<Axis>& axes,
                    const std::vector<std::pair<std::string, std::string>>& values);

// An axis set by the user with --axis NAME=V1,V2.
struct AxisOverride {
  std::string name;
  std::string values;
};
// Splits "NAME=V1,V2"; throws UsageError.
AxisOverride ParseAxisFlag(std::string_view text);

// Every combination of the axes' values, the last axis varying fastest.
std::vector<Settings> Combinations(const std::vector<Axis>& axes);

}  // namespace overlapbench
