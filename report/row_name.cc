#include "report/row_name.h"

#include <algorithm>

#include "workload/size.h"

namespace overlapbench {
SplitName Split(const std::string& name) {
  const auto first_axis = name.find(':');
  if (first_axis == std::string::npos) return {name, ""};
  const auto scenario_end = name.rfind('/', first_axis);
  if (scenario_end == std::string::npos) return {name, ""};
  return {name.substr(0, scenario_end), name.substr(scenario_end)};
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
