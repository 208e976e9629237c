#include "report/row.h"

#include <array>
#include <charconv>

namespace overlapbench {
namespace {

// Google Benchmark 1.8 renamed the members that say a run was skipped; Run is a parameter so that
// only the branch that compiles is looked at.
template <class Run>
std::string ErrorOf(const Run& run) {
  if constexpr (requires { run.skip_message; }) {
    return run.skipped ? run.skip_message : "";
  } else {
    return run.error_occurred ? run.error_message : "";
  }
}

// "67108864" as "64M", when it is a whole number of the unit.
std::string ShortBytes(const std::string& digits) {
  long value = 0;
  const auto [end, code] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (code != std::errc() || end != digits.data() + digits.size()) return digits;
  constexpr std::array<char, 4> kUnits = {'G', 'M', 'K', '\0'};
  long unit = 1L << 30;
  for (const char name : kUnits) {
    if (value >= unit && value % unit == 0) {
      return std::to_string(value / unit) + (name == '\0' ? "" : std::string(1, name));
    }
    unit >>= 10;
  }
  return digits;
}

}  // namespace

double Row::Counter(const std::string& counter) const {
  const auto entry = counters.find(counter);
  return entry == counters.end() ? 0 : entry->second;
}

Row MakeRow(const benchmark::BenchmarkReporter::Run& run) {
  Row row;
  row.name = run.run_name.function_name;
  row.error = ErrorOf(run);
  row.label = run.report_label;
  row.time_ms = run.GetAdjustedRealTime();
  for (const auto& [name, counter] : run.counters) row.counters[name] = counter.value;
  return row;
}

SplitName Split(const std::string& name) {
  const auto family_end = name.find('/');
  const auto scenario_end = name.find('/', family_end + 1);
  if (scenario_end == std::string::npos) return {name, ""};
  return {name.substr(0, scenario_end), name.substr(scenario_end)};
}

std::string AxisValue(const std::string& name, const std::string& axis) {
  const std::string key = "/" + axis + ":";
  const auto begin = name.find(key);
  if (begin == std::string::npos) return "";
  const auto value = begin + key.size();
  return name.substr(value, name.find('/', value) - value);
}

std::string WithoutAxis(const std::string& axes, const std::string& axis) {
  const auto begin = axes.find("/" + axis + ":");
  if (begin == std::string::npos) return axes;
  const auto end = axes.find('/', begin + 1);
  return axes.substr(0, begin) + (end == std::string::npos ? "" : axes.substr(end));
}

std::string ReadableAxes(const std::string& axes) {
  std::string text;
  for (std::size_t begin = 0; begin < axes.size();) {
    const auto end = std::min(axes.find('/', begin + 1), axes.size());
    const std::string axis = axes.substr(begin + 1, end - begin - 1);
    const auto colon = axis.find(':');
    const std::string value = axis.substr(colon + 1);
    const bool is_bytes = axis.substr(0, colon).ends_with("bytes");
    text += (text.empty() ? "" : " ") + axis.substr(0, colon + 1) +
            (is_bytes ? ShortBytes(value) : value);
    begin = end;
  }
  return text;
}

}  // namespace overlapbench
