#include "workload/size.h"

#include <algorithm>
#include <limits>

#include "device/text.h"

namespace overlapbench {
namespace {

constexpr std::string_view kUnits = "KMGT";
constexpr int kBitsOfUnit = 10;

}  // namespace

bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsOfAWord(char c) {
  return IsDigit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

std::optional<long> ReadSize(std::string_view text) {
  int shift = 0;
  if (!text.empty()) {
    const auto unit = kUnits.find(text.back());
    if (unit != std::string_view::npos) {
      shift = kBitsOfUnit * (static_cast<int>(unit) + 1);
      text.remove_suffix(1);
    }
  }
  const auto value = WholeNumber(text);
  const long most = std::numeric_limits<long>::max() >> shift;
  if (!value || *value > most || *value < -most) return std::nullopt;
  return *value * (1L << shift);
}

std::string BinarySize(std::string_view digits) {
  const auto value = ReadSize(digits);
  if (!value) return std::string(digits);
  for (std::size_t unit = kUnits.size(); unit > 0 && *value != 0; --unit) {
    const long bytes = 1L << (kBitsOfUnit * unit);
    if (*value % bytes == 0) return std::to_string(*value / bytes) + " " + kUnits[unit - 1] + "iB";
  }
  return std::to_string(*value) + " B";
}

std::string WithSizesInDigits(std::string_view text) {
  std::string plain;
  while (!text.empty()) {
    const std::string_view word(text.begin(), std::ranges::find_if_not(text, IsOfAWord));
    const bool has_no_unit = word.empty() || IsDigit(word.back());
    const auto size = has_no_unit ? std::nullopt : ReadSize(word);
    plain += size ? std::to_string(*size) : std::string(word);
    text.remove_prefix(word.size());
    // The character after a backslash belongs to it.
    const std::string_view others = text.substr(0, text.starts_with('\\') ? 2 : 1);
    if (word.empty()) {
      plain += others;
      text.remove_prefix(others.size());
    }
  }
  return plain;
}

}  // namespace overlapbench
