#include "benchmarks/selection.h"

#include <algorithm>
#include <regex>
#include <utility>

namespace overlapbench {
namespace {

class Filter {
 public:
  explicit Filter(std::string text) {
    negative_ = text.starts_with('-');
    if (negative_) text.erase(0, 1);
    try {
      expression_.assign(text, std::regex::extended);
    } catch (const std::regex_error&) {
      throw UsageError("--benchmark_filter: '" + text + "' is not a regular expression");
    }
  }
  [[nodiscard]] bool Matches(const std::string& name) const {
    return std::regex_search(name, expression_) != negative_;
  }

 private:
  std::regex expression_;
  bool negative_ = false;
};

std::vector<std::string> DescribeUnavailable(const Plan& plan, const Filter& filter) {
  std::vector<std::pair<std::string, std::vector<std::string>>> by_reason;
  for (const auto& [name, reason] : plan.unavailable()) {
    if (!filter.Matches(name)) continue;
    auto entry = std::ranges::find(by_reason, reason, [](const auto& pair) { return pair.first; });
    if (entry == by_reason.end()) entry = by_reason.insert(by_reason.end(), {reason, {}});
    if (std::ranges::find(entry->second, name) == entry->second.end())
      entry->second.push_back(name);
  }
  std::vector<std::string> lines;
  for (const auto& [reason, names] : by_reason) {
    std::string line = "not available: " + names.front();
    if (names.size() > 1) line += " and " + std::to_string(names.size() - 1) + " more";
    lines.push_back(line + ": " + reason);
  }
  return lines;
}

}  // namespace

Selection Select(const Plan& plan, const std::string& filter_text) {
  const Filter filter(filter_text);
  Selection selection{.benchmarks = {}, .unavailable = DescribeUnavailable(plan, filter)};
  for (const auto& benchmark : plan.benchmarks()) {
    if (filter.Matches(benchmark.configuration.name)) selection.benchmarks.push_back(benchmark);
  }
  return selection;
}

void RequireSomething(const Selection& selection, const std::string& filter) {
  if (!selection.benchmarks.empty()) return;
  const auto& lines = selection.unavailable;
  throw UsageError("no benchmark matches --benchmark_filter=" + filter + "; " +
                   (lines.empty() ? "--benchmark_list_tests lists the names" : lines.front()));
}

}  // namespace overlapbench
