#include "benchmarks/name_filter.h"

#include <fmt/core.h>

#include "device/error.h"
#include "workload/size.h"

namespace overlapbench {

NameFilter::NameFilter(const std::string& flag, std::string text) {
  negative_ = text.starts_with('-');
  if (negative_) text.erase(0, 1);
  try {
    expression_.assign(WithSizesInDigits(text), std::regex::extended);
  } catch (const std::regex_error&) {
    throw UsageError(fmt::format("{}: '{}' is not a regular expression", flag, text));
  }
}

std::string WithPlusEscaped(const std::string& text) {
  std::string escaped;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '+') escaped += '\\';
    escaped += text[i];
    if (text[i] == '\\' && i + 1 < text.size()) escaped += text[++i];
  }
  return escaped;
}

}  // namespace overlapbench
