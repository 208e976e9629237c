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

std::vector<NamedValue> ReadableAxes(const std::string& axes) {
  std::vector<NamedValue> readable;
  for (std::size_t begin = 0; begin < axes.size();) {
    const auto end = std::min(axes.find('/', begin + 1), axes.size());
    const std::string part = axes.substr(begin + 1, end - begin - 1);
    const auto colon = std::min(part.find(':'), part.size());
    const std::string axis = part.substr(0, colon);
    const std::string value = part.substr(std::min(colon + 1, part.size()));
    readable.push_back({axis, axis.ends_with("bytes") ? BinarySize(value) : value});
    begin = end;
  }
  return readable;
}

}  // namespace overlapbench
