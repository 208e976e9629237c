#include "report/json.h"

#include <fmt/core.h>
#include <fmt/format.h>

#include <array>
#include <cmath>

namespace overlapbench {
namespace {

// What a text begins with: a character of UTF-8, or the bytes that could have become one.
struct Utf8Start {
  std::size_t bytes = 1;
  bool is_whole = false;
};

// The bytes behind the first are 80 to BF. Where the second has a narrower range, others would be a
// longer form than needed, a surrogate, or beyond U+10FFFF.
Utf8Start StartOf(std::string_view text) {
  struct Form {
    unsigned first, last;          // of the first byte
    unsigned second, last_second;  // of the second
    std::size_t bytes;
  };
  constexpr auto kForms = std::to_array<Form>({{0x00, 0x7f, 0x80, 0xbf, 1},
                                               {0xc2, 0xdf, 0x80, 0xbf, 2},
                                               {0xe0, 0xe0, 0xa0, 0xbf, 3},
                                               {0xe1, 0xec, 0x80, 0xbf, 3},
                                               {0xed, 0xed, 0x80, 0x9f, 3},
                                               {0xee, 0xef, 0x80, 0xbf, 3},
                                               {0xf0, 0xf0, 0x90, 0xbf, 4},
                                               {0xf1, 0xf3, 0x80, 0xbf, 4},
                                               {0xf4, 0xf4, 0x80, 0x8f, 4}});
  const auto is_within = [&](std::size_t place, unsigned first, unsigned last) {
    if (place >= text.size()) return false;
    const unsigned byte = static_cast<unsigned char>(text[place]);
    return byte >= first && byte <= last;
  };
  for (const Form& form : kForms) {
    if (!is_within(0, form.first, form.last)) continue;
    std::size_t bytes = 1;
    if (form.bytes > 1 && is_within(1, form.second, form.last_second)) {
      for (bytes = 2; bytes < form.bytes && is_within(bytes, 0x80, 0xbf);) ++bytes;
    }
    return {bytes, bytes == form.bytes};
  }
  return {};
}

}  // namespace

// A byte that begins no character, or a truncated character, is replaced, as decoders do: the
// Unicode Standard 16.0, chapter 3.9, table 3-7 and "U+FFFD Substitution of Maximal Subparts".
std::string ValidUtf8(std::string_view text) {
  constexpr const char* kReplacement = "\xef\xbf\xbd";
  std::string valid;
  while (!text.empty()) {
    const Utf8Start start = StartOf(text);
    valid += start.is_whole ? text.substr(0, start.bytes) : kReplacement;
    text.remove_prefix(start.bytes);
  }
  return valid;
}

std::string EscapedJson(std::string_view text) {
  std::string escaped;
  for (const char c : ValidUtf8(text)) {
    if (c == '"' || c == '\\') escaped += '\\';
    escaped += c >= '\0' && c < ' ' ? ' ' : c;
  }
  return escaped;
}

JsonObject& JsonObject::Text(std::string_view name, std::string_view text) {
  return Add(name, fmt::format("\"{}\"", EscapedJson(text)));
}

JsonObject& JsonObject::Number(std::string_view name, double number, int decimals) {
  return Add(name, fmt::format("{:.{}f}", number, decimals));
}

JsonObject& JsonObject::Number(std::string_view name, double number) {
  return std::isfinite(number) ? Add(name, fmt::format("{:.16e}", number)) : *this;
}

JsonObject& JsonObject::Add(std::string_view name, std::string_view json) {
  members_.push_back(fmt::format("\"{}\": {}", name, json));
  return *this;
}

std::string JsonObject::Line() const { return fmt::format("{{{}}}", fmt::join(members_, ", ")); }

std::string JsonObject::Lines(int indent) const {
  const std::string left(static_cast<std::size_t>(indent), ' ');
  const std::string between = ",\n" + left + "  ";
  return fmt::format("{0}{{\n{0}  {1}\n{0}}}", left, fmt::join(members_, between));
}

}  // namespace overlapbench
