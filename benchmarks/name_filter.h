// NameFilter: selects benchmarks by name.
//
// It works like Google Benchmark's filter: an extended regular expression, which may match any part
// of a name. A leading '-' selects the names that do not match. A size in it may be written as 64M
// or as 67108864.
#pragma once

#include <regex>
#include <string>

namespace overlapbench {

class NameFilter {
 public:
  // Throws UsageError, which names `flag`, if `text` is not a regular expression.
  NameFilter(const std::string& flag, std::string text);
  [[nodiscard]] bool Matches(const std::string& name) const {
    return std::regex_search(name, expression_) != negative_;
  }

 private:
  std::regex expression_;
  bool negative_ = false;
};

// `text` with a backslash before each '+' that has none, so that it matches the '+' of names.
std::string WithPlusEscaped(const std::string& text);

}  // namespace overlapbench
