// Whole numbers in texts that others have written.
#pragma once

#include <charconv>
#include <optional>
#include <string_view>

namespace overlapbench {

// nullopt if the whole text is not such a number.
inline std::optional<long> WholeNumber(std::string_view text) {
  long number = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (code != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

}  // namespace overlapbench
