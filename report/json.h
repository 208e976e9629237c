// JSON, written: objects member by member, from any text and any number.
//
//   JsonObject().Text("name", row).Count("samples", 3).Line()   {"name": "Overlap/...", "samples":
//   3}
#pragma once

#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace overlapbench {

// `text` with U+FFFD in place of what is not UTF-8.
std::string ValidUtf8(std::string_view text);

// `text` escaped for a JSON string, without its quotation marks. Invalid UTF-8 becomes U+FFFD.
std::string EscapedJson(std::string_view text);

class JsonObject {
 public:
  JsonObject& Text(std::string_view name, std::string_view text);
  JsonObject& Count(std::string_view name, std::integral auto count) {
    return Add(name, std::to_string(count));
  }
  JsonObject& Number(std::string_view name, double number, int decimals);
  // With as many digits as tell any two numbers apart. Left out if it is NaN or infinite, which
  // JSON has no words for.
  JsonObject& Number(std::string_view name, double number);
  JsonObject& Object(std::string_view name, const JsonObject& object) {
    return Add(name, object.Line());
  }
  // `json`: a value of any kind.
  JsonObject& Add(std::string_view name, std::string_view json);

  [[nodiscard]] std::string Line() const;
  // One member per line, `indent` characters from the left.
  [[nodiscard]] std::string Lines(int indent) const;

 private:
  std::vector<std::string> members_;
};

}  // namespace overlapbench
