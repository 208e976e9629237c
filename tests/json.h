// A strict JSON reader, so that tests see what the tools would. It accepts what RFC 8259 allows,
// and throws at anything else, and at a duplicate key in an object.
#pragma once

#include <cctype>
#include <charconv>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace overlapbench {

struct Json {
  enum class Kind : unsigned char { kNull, kTruth, kNumber, kText, kList, kObject };
  Kind kind = Kind::kNull;
  double number = 0;  // of a truth 0 or 1
  std::string text;
  std::vector<Json> items = {};                            // of a list
  std::vector<std::pair<std::string, Json>> members = {};  // of an object

  [[nodiscard]] const Json* Find(std::string_view key) const {
    for (const auto& [name, value] : members)
      if (name == key) return &value;
    return nullptr;
  }
  [[nodiscard]] bool Has(std::string_view key) const { return Find(key) != nullptr; }
  [[nodiscard]] const Json& At(std::string_view key) const {
    const Json* const found = Find(key);
    if (found == nullptr) throw std::runtime_error("there is no member " + std::string(key));
    return *found;
  }
};

class JsonReader {
 public:
  // Parses `text` as one document, with nothing after it.
  static Json Read(std::string_view text) {
    JsonReader reader(text);
    Json document = reader.Value();
    reader.SkipSpace();
    if (!reader.rest_.empty()) reader.Fail("more than one document");
    return document;
  }

 private:
  explicit JsonReader(std::string_view text) : rest_(text), all_(text) {}

  [[noreturn]] void Fail(const std::string& why) const {
    const std::size_t at = all_.size() - rest_.size();
    throw std::runtime_error("no JSON at character " + std::to_string(at) + ", " + why + ": " +
                             std::string(rest_.substr(0, 40)));
  }
  void SkipSpace() {
    const auto begin = rest_.find_first_not_of(" \t\r\n");
    rest_.remove_prefix(begin == std::string_view::npos ? rest_.size() : begin);
  }
  bool Take(std::string_view expected) {
    SkipSpace();
    if (!rest_.starts_with(expected)) return false;
    rest_.remove_prefix(expected.size());
    return true;
  }
  void Need(std::string_view expected) {
    if (!Take(expected)) Fail("expected " + std::string(expected));
  }

  Json Value() {
    SkipSpace();
    if (Take("{")) return Object();
    if (Take("[")) return List();
    Json value;
    if (rest_.starts_with('"')) {
      value.kind = Json::Kind::kText;
      value.text = Text();
    } else if (Take("true")) {
      value.kind = Json::Kind::kTruth;
      value.number = 1;
    } else if (Take("false")) {
      value.kind = Json::Kind::kTruth;
    } else if (!Take("null")) {
      value.kind = Json::Kind::kNumber;
      value.number = Number();
    }
    return value;
  }
  Json Object() {
    Json object;
    object.kind = Json::Kind::kObject;
    if (Take("}")) return object;
    do {
      SkipSpace();
      std::string key = Text();
      if (object.Has(key)) Fail("a second " + key);
      Need(":");
      Json value = Value();
      object.members.emplace_back(std::move(key), std::move(value));
    } while (Take(","));
    Need("}");
    return object;
  }
  Json List() {
    Json list;
    list.kind = Json::Kind::kList;
    if (Take("]")) return list;
    do {
      list.items.push_back(Value());
    } while (Take(","));
    Need("]");
    return list;
  }
  std::string Text() {
    Need("\"");
    std::string text;
    while (!rest_.starts_with('"')) {
      if (rest_.empty() || static_cast<unsigned char>(rest_[0]) < ' ') Fail("text does not end");
      if (rest_[0] == '\\') {
        rest_.remove_prefix(1);
        // \u is not read: nothing here writes it.
        constexpr std::string_view kEscaped = "\"\\/bfnrt";
        constexpr std::string_view kMeant = "\"\\/\b\f\n\r\t";
        const auto place = rest_.empty() ? std::string_view::npos : kEscaped.find(rest_[0]);
        if (place == std::string_view::npos) Fail("unknown escape");
        text += kMeant[place];
      } else {
        text += rest_[0];
      }
      rest_.remove_prefix(1);
    }
    rest_.remove_prefix(1);
    return text;
  }
  double Number() {
    double number = 0;
    const auto [end, code] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), number);
    const bool digits = !rest_.empty() && (rest_[0] == '-' || std::isdigit(rest_[0]) != 0);
    if (code != std::errc() || !digits) Fail("expected a value");
    rest_.remove_prefix(static_cast<std::size_t>(end - rest_.data()));
    return number;
  }

  std::string_view rest_;
  std::string_view all_;
};

}  // namespace overlapbench
