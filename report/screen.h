// Screen: how wide the console is, whether it shows colours, and how text is laid out on it.
//
// Text is UTF-8 and may contain colours. Its width is that of its characters, without colours.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace overlapbench {

struct Screen {
  std::size_t columns = 80;  // the width of tables; the terminal's, if there is one
  bool is_terminal = false;  // else plain lines: names are not broken
  bool has_colour = false;
};

// The screen of standard output. `columns`: as the user or ./bench says, since mpirun hides the
// terminal from its ranks; 0: there is none. `colour`: the user's choice, which overrides NO_COLOR
// and TERM.
Screen FindScreen(std::optional<int> columns, std::optional<bool> colour);

enum class Colour : unsigned char { kGreen, kYellow, kRed, kCyan, kDim };
std::string Painted(const Screen& screen, Colour colour, std::string_view text);

// How many columns a text takes.
std::size_t WidthOf(std::string_view text);
// Cuts the text to this width, with "..." at the end if anything is missing.
std::string Shortened(std::string_view text, std::size_t columns);
// Pads the text with blanks before or after it.
std::string RightAligned(const std::string& text, std::size_t columns);
std::string LeftAligned(const std::string& text, std::size_t columns);

// The pieces one after the other, in lines of at most `columns`. A line is broken between pieces
// only; the lines after the first are indented. No line break at the end.
std::string Filled(const std::vector<std::string>& pieces, std::size_t columns, std::size_t indent);
// The same with the words of `text`, or with the parts of a name.
std::string Wrapped(std::string_view text, std::size_t columns, std::size_t indent);
std::vector<std::string> SplitBehind(std::string_view text, char separator);

}  // namespace overlapbench
