#include "report/row.h"

#include <algorithm>

#include "workload/size.h"

namespace overlapbench {
namespace {

// Google Benchmark 1.8 renamed the members that say that a run was skipped. Run is a template
// parameter so that only the branch that exists is compiled.
template <class Run>
std::string ErrorOf(const Run& run) {
  if constexpr (requires { run.skip_message; }) {
    return run.skipped ? run.skip_message : "";
  } else {
    return run.error_occurred ? run.error_message : "";
  }
}

}  // namespace

double Row::Counter(const std::string& counter) const {
  const auto entry = counters.find(counter);
  return entry == counters.end() ? 0 : entry->second;
}

Row MakeRow(const benchmark::BenchmarkReporter::Run& run) {
  constexpr double kMillisecondsInSecond = 1000;
  Row row;
  row.name = run.run_name.function_name;
  row.reason = ErrorOf(run);
  row.state = row.reason.empty() ? RowState::kOk : RowState::kError;
  if (row.measured()) row.reason = run.report_label;
  row.time_ms = run.GetAdjustedRealTime() / benchmark::GetTimeUnitMultiplier(run.time_unit) *
                kMillisecondsInSecond;
  for (const auto& [name, counter] : run.counters) row.counters[name] = counter.value;
  const auto state = row.counters.extract(kStateCounter);
  if (row.measured() && !state.empty()) row.state = static_cast<RowState>(state.mapped());
  return row;
}

SplitName Split(const std::string& name) {
  const auto first_axis = name.find(':');
  if (first_axis == std::string::npos) return {name, ""};
  const auto scenario_end = name.rfind('/', first_axis);
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
            (is_bytes ? ShortSize(value) : value);
    begin = end;
  }
  return text;
}

}  // namespace overlapbench
