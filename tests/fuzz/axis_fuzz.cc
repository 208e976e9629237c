// Fuzzes the command line: whatever its bytes, an argument is accepted or refused with a
// UsageError, and an accepted one has a canonical form that parses as itself.
//
// The input is a command line with an argument a line. Built with clang (preset `fuzz`) this runs
// under libFuzzer; elsewhere driver.cc stands in for it, with the same flags.
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <string>
#include <string_view>
#include <vector>

#include "device/error.h"
#include "fixtures/options.h"
#include "workload/axis.h"

namespace overlapbench {
namespace {

std::vector<std::string> Lines(std::string_view text) {
  std::vector<std::string> lines;
  while (!text.empty()) {
    const auto end = text.find('\n');
    lines.emplace_back(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return lines;
}

// One of each kind.
const std::vector<Axis>& AllAxes() {
  static const std::vector<Axis> axes = {
      BytesAxis("bytes", "", "1M,64M"), IntegerAxis("n", "", 16, 32768, "64", "64"),
      IntegerAxis("offset", "", -8, 8, "0"), GridAxis("grid", "", "1x1,16x16"),
      ChoiceAxis("cache", "", {"cold", "warm"}, "cold", "cold")};
  return axes;
}

void Require(bool holds, const char* what, const std::string& value) {
  if (holds) return;
  std::cerr << what << ": '" << value << "'\n";
  std::abort();
}

void TryValues(const Axis& axis, std::string_view text) {
  try {
    for (const std::string& value : ReadValues(axis, text)) {
      Require(axis.canonical(value) == value, "the canonical form reads as another", value);
      const Settings settings = SettingsOf({axis}, {{axis.name, value}});
      Require(settings.Text(axis.name) == value, "settings have another value", value);
      if (axis.name == "grid") Require(settings.Grid(axis.name).x > 0, "a grid of nothing", value);
      if (axis.name == "bytes") Require(settings.Integer(axis.name) > 0, "no bytes", value);
    }
  } catch (const UsageError& error) {
    Require(std::string_view(error.what()).find(axis.name) != std::string_view::npos,
            "a refusal that does not name the axis", error.what());
  }
}

void Try(std::string_view text) {
  const std::vector<std::string> arguments = Lines(text);
  for (const std::string& argument : arguments) {
    for (const Axis& axis : AllAxes()) TryValues(axis, argument);
  }
  try {
    const Options options = ParseOptions(arguments);
    for (const auto& [name, values] : options.axes) {
      Require(!name.empty(), "an axis without a name", values);
    }
  } catch (const UsageError& error) {
    Require(*error.what() != '\0', "a refusal without a word", "");
  }
}

}  // namespace
}  // namespace overlapbench

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  overlapbench::Try({reinterpret_cast<const char*>(data), size});
  return 0;
}
