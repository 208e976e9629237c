// Shortened: the beginning of a text, where it may only have so many bytes.
//
// No character of UTF-8 is cut in two: half of one makes the text, and any JSON with it, unreadable
// to strict readers.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>

namespace overlapbench {

inline std::string Shortened(std::string_view text, std::size_t most_bytes) {
  const auto continues = [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) == 0x80U; };
  std::size_t size = std::min(text.size(), most_bytes);
  while (size > 0 && size < text.size() && continues(text[size])) --size;
  return std::string(text.substr(0, size));
}

}  // namespace overlapbench
