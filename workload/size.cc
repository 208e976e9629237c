#include "workload/size.h"

#include <algorithm>
#include <charconv>
#include <limits>

namespace overlapbench {
namespace {

constexpr std::string_view kUnits = "KMGT";
constexpr int kBitsOfUnit = 10;

bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsOfAWord(char c) {
  return IsDigit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

}  // namespace

std::optional<long> ReadSize(std::string_view text) {
  int shift = 0;
  if (!text.empty()) {
    const auto unit = kUnits.find(text.back());
    if (unit != std::string_view::npos) {
      shift = kBitsOfUnit * (static_cast<int>(unit) + 1);
      text.remove_suffix(1);
    }
  }
  long value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc() || end != text.data() + text.size()) return std::nullopt;
  const long most = std::numeric_limits<long>::max() >> shift;
  if (value > most || value < -most) return std::nullopt;
  return value * (1L << shift);
}

std::string ShortSize(std::string_view digits) {
  const auto value = ReadSize(digits);
  if (!value || *value <= 0) return std::string(digits);
  for (std::size_t unit = kUnits.size(); unit > 0; --unit) {
    const long bytes = 1L << (kBitsOfUnit * unit);
    if (*value % bytes == 0) return std::to_string(*value / bytes) + kUnits[unit - 1];
  }
  return std::to_string(*value);
}

std::string WithSizesInDigits(std::string_view text) {
  std::string plain;
  while (!text.empty()) {
    std::size_t length = 0;
    while (length < text.size() && IsOfAWord(text[length])) ++length;
    const std::string_view word = text.substr(0, length);
    const auto size = length > 1 && IsDigit(word.front()) ? ReadSize(word) : std::nullopt;
    plain += size && !IsDigit(word.back()) ? std::to_string(*size) : std::string(word);
    // The character after a backslash belongs to it.
    const std::size_t others = length == 0 && text.starts_with('\\') ? 2 : length == 0 ? 1 : 0;
    plain += text.substr(length, others);
    text.remove_prefix(std::min(length + others, text.size()));
  }
  return plain;
}

}  // namespace overlapbench
