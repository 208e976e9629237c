// Texts that others write, and texts for them.
#pragma once

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace overlapbench {

// nullopt if the whole text is not a whole number.
inline std::optional<long> WholeNumber(std::string_view text) {
  long number = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (code != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

// The beginning of a text that may only have so many bytes. No character of UTF-8 is cut in two:
// half of one makes the text, and any JSON with it, unreadable to strict readers.
inline std::string WithinBytes(std::string_view text, std::size_t most_bytes) {
  const auto continues = [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) == 0x80U; };
  std::size_t size = std::min(text.size(), most_bytes);
  while (size > 0 && size < text.size() && continues(text[size])) --size;
  return std::string(text.substr(0, size));
}

// "; did you mean grid?" if `word` is within a typo or two of one of `known`, in any case, else "".
std::string DidYouMean(std::string_view word, const std::vector<std::string>& known);

}  // namespace overlapbench
