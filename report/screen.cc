#include "report/screen.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>

namespace overlapbench {
namespace {

constexpr char kEscape = '\033';

std::string_view CodeOf(Colour colour) {
  constexpr std::array<const char*, 5> kCodes = {"\033[32m", "\033[33m", "\033[31m", "\033[36m",
                                                 "\033[2m"};
  return kCodes.at(static_cast<std::size_t>(colour));
}

// Under a launcher, standard output is a terminal of no width.
std::size_t ColumnsOfTerminal() {
  winsize size{};
  return isatty(STDOUT_FILENO) != 0 && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 ? size.ws_col
                                                                                    : 0;
}

bool Wants(const char* variable, std::string_view unwanted) {
  const char* value = std::getenv(variable);
  return value == nullptr || value != unwanted;
}

// The bytes that the character or colour at the beginning of `text` takes, and its columns.
struct Glyph {
  std::size_t bytes = 1;
  std::size_t columns = 1;
};
Glyph FirstOf(std::string_view text) {
  if (text.front() == kEscape) {
    const auto end = text.find('m');
    return {end == std::string_view::npos ? text.size() : end + 1, 0};
  }
  Glyph glyph;
  const auto continues = [&] {
    constexpr unsigned kMask = 0xC0;
    constexpr unsigned kContinuation = 0x80;
    return glyph.bytes < text.size() &&
           (static_cast<unsigned char>(text[glyph.bytes]) & kMask) == kContinuation;
  };
  while (continues()) ++glyph.bytes;
  return glyph;
}

void RemoveBlanksAtTheEnd(std::string& text) {
  while (text.ends_with(' ')) text.pop_back();
}

}  // namespace

Screen FindScreen(std::optional<int> columns, std::optional<bool> colour) {
  constexpr std::size_t kNarrowest = 40;
  Screen screen;
  const std::size_t found = columns ? static_cast<std::size_t>(*columns) : ColumnsOfTerminal();
  screen.is_terminal = found > 0;
  if (screen.is_terminal) screen.columns = std::max(found, kNarrowest);
  const char* no_colour = std::getenv("NO_COLOR");
  const bool refused = no_colour != nullptr && *no_colour != '\0';
  screen.has_colour = colour.value_or(screen.is_terminal && !refused && Wants("TERM", "dumb"));
  return screen;
}

std::string Painted(const Screen& screen, Colour colour, std::string_view text) {
  if (!screen.has_colour || text.empty()) return std::string(text);
  return std::string(CodeOf(colour)) + std::string(text) + "\033[0m";
}

std::size_t WidthOf(std::string_view text) {
  std::size_t width = 0;
  while (!text.empty()) {
    const Glyph glyph = FirstOf(text);
    width += glyph.columns;
    text.remove_prefix(glyph.bytes);
  }
  return width;
}

std::string Shortened(std::string_view text, std::size_t columns) {
  constexpr std::string_view kMissing = "...";
  if (WidthOf(text) <= columns) return std::string(text);
  std::string kept;
  std::size_t width = kMissing.size();
  while (width + FirstOf(text).columns <= columns) {
    const Glyph glyph = FirstOf(text);
    kept += text.substr(0, glyph.bytes);
    width += glyph.columns;
    text.remove_prefix(glyph.bytes);
  }
  return kept + std::string(kMissing);
}

std::string RightAligned(const std::string& text, std::size_t columns) {
  return std::string(columns - std::min(columns, WidthOf(text)), ' ') + text;
}

std::string LeftAligned(const std::string& text, std::size_t columns) {
  return text + std::string(columns - std::min(columns, WidthOf(text)), ' ');
}

std::string Filled(const std::vector<std::string>& pieces, std::size_t columns,
                   std::size_t indent) {
  std::string text;
  std::size_t width = 0;
  for (const std::string& piece : pieces) {
    std::string shown = piece;
    RemoveBlanksAtTheEnd(shown);
    if (width > indent && width + WidthOf(shown) > columns) {
      RemoveBlanksAtTheEnd(text);
      text += "\n" + std::string(indent, ' ');
      width = indent;
    }
    text += piece;
    width += WidthOf(piece);
  }
  RemoveBlanksAtTheEnd(text);
  return text;
}

std::vector<std::string> SplitBehind(std::string_view text, char separator) {
  std::vector<std::string> pieces;
  while (!text.empty()) {
    const auto end = std::min(text.find(separator), text.size() - 1) + 1;
    pieces.emplace_back(text.substr(0, end));
    text.remove_prefix(end);
  }
  return pieces;
}

std::string Wrapped(std::string_view text, std::size_t columns, std::size_t indent) {
  return Filled(SplitBehind(text, ' '), columns, indent);
}

}  // namespace overlapbench
