// NameFilter: selects benchmarks by name.
//
// It works like Google Benchmark's filter: an extended regular expression, which may match any part
// of a name. A leading '-' selects the names that do not match. A size in it may be written as 64M
// or as 67108864.
#pragma once

#include <functional>
#include <regex>
#include <string>
#include <vector>

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

// Throws UsageError, which names `flag`, if comparing `text` with these names would end this
// process or take seconds: std::regex overflows the stack on long or deeply nested expressions, and
// some take longer than anyone waits. A child process tries it. Call before threads or MPI start.
void RequireUsableFilter(const std::string& flag, const std::string& text,
                         const std::function<std::vector<std::string>()>& names);

// The text for a message: long ones are cut.
std::string ShownFilter(const std::string& text);

// `text` with a backslash before each '+' that has none, so that it matches the '+' of names.
std::string WithPlusEscaped(const std::string& text);

}  // namespace overlapbench
