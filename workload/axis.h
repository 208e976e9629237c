// Axes: a benchmark's parameters, and how their values are written.
//
// An axis has a name, a way to read one value, and default values. Values are kept as text in
// canonical form ("64M" becomes "67108864"). That text is part of a benchmark's name, and a name
// identifies a configuration forever. An axis may therefore have a `standing` value, which names
// leave out: if the axis is added later, all earlier names stay the same.
//
// Some sizes are shared by the ranks, which not every number can do. Such an axis has a `unit`, and
// a default that is no multiple of it is rounded to the nearest one (InUnits), so that any number
// of ranks has rows. Values that the user chose are not rounded.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace overlapbench {

class Settings;

struct Axis {
  std::string name;
  std::string help;
  // The canonical form of a value. Throws UsageError, which says which values are valid.
  std::function<std::string(std::string_view)> canonical;
  std::vector<std::string> values;   // canonical
  std::string standing;              // canonical; "" when every value is written
  std::vector<std::string> choices;  // all valid values, if they can be listed
  long unit = 1;
  std::function<long(const Settings&)> size = {};  // that a value stands for; none: its number
};

struct GridShape {
  int x = 1;
  int y = 1;
};

// `defaults` are written as a user would write them, separated by commas.
Axis BytesAxis(std::string name, std::string help, std::string_view defaults,
               std::string_view standing = "");
Axis IntegerAxis(std::string name, std::string help, long least, long most,
                 std::string_view defaults, std::string_view standing = "");
Axis GridAxis(std::string name, std::string help, std::string_view defaults);
Axis ChoiceAxis(std::string name, std::string help, std::vector<std::string> choices,
                std::string_view defaults, std::string_view standing = "");

// The same axis with one more valid value, a word. Its values become `defaults`, which may include
// the word.
Axis OrWord(Axis axis, std::string_view word, std::string_view defaults,
            std::string_view standing = "");
// The same axis with the word `auto`, which selects what is best here.
Axis OrAuto(Axis axis, std::string_view defaults);
inline constexpr std::string_view kAuto = "auto";

// The same axis with a unit.
Axis InUnitsOf(long unit, Axis axis);

// Reads "V1,V2" as values of `axis`. Throws UsageError, which names the axis and the value.
std::vector<std::string> ReadValues(const Axis& axis, std::string_view text);

// One value for each axis of a benchmark.
class Settings {
 public:
  void Set(const Axis& axis, std::string value);
  [[nodiscard]] bool Has(std::string_view axis) const;
  [[nodiscard]] const std::string& Text(std::string_view axis) const;
  [[nodiscard]] long Integer(std::string_view axis) const;
  [[nodiscard]] GridShape Grid(std::string_view axis) const;
  // "/bytes:67108864/grid:16x16", without the axes that have their standing value.
  [[nodiscard]] std::string NameSuffix() const;
  // A copy in which `axis` has another value, given in canonical form. An axis that these settings
  // lack is added, and names leave it out.
  [[nodiscard]] Settings With(std::string_view axis, std::string value) const;

 private:
  struct Entry {
    std::string axis;
    std::string value;
    std::optional<std::string> standing;  // the value that names leave out; nullopt: all values
  };
  std::vector<Entry> entries_;
};

// The axes at the given values. The other axes get their standing value or, if they have none,
// their first. Throws UsageError for an invalid value.
Settings SettingsOf(const std::vector<Axis>& axes,
                    const std::vector<std::pair<std::string, std::string>>& values);

// An axis set by the user with --axis NAME=V1,V2.
struct AxisOverride {
  std::string name;
  std::string values;
};
// Splits "NAME=V1,V2". Throws UsageError if it is malformed.
AxisOverride ParseAxisFlag(std::string_view text);

// Every combination of the axes' values, the last axis varying fastest.
std::vector<Settings> Combinations(const std::vector<Axis>& axes);

// The settings with each size rounded to the nearest multiple of its axis's unit, of two the
// larger. Throws UsageError if the axis has no such value.
Settings InUnits(const std::vector<Axis>& axes, Settings settings);

}  // namespace overlapbench
