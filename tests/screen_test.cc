// The layout of text: widths of non-ASCII text, line breaks, and when colour is used.
#include "report/screen.h"

#include <gtest/gtest.h>

#include <cstdlib>

namespace overlapbench {
namespace {

TEST(WidthOf, CountsVisibleCharacters) {
  EXPECT_EQ(WidthOf("1.45 ±0.01"), 10U);
  EXPECT_EQ(WidthOf("\033[32mgreen\033[0m"), 5U);
  EXPECT_EQ(WidthOf(""), 0U);
  EXPECT_EQ(WidthOf("\033[3"), 0U);
}

TEST(Wrapped, BreaksOnlyBetweenWords) {
  EXPECT_EQ(Wrapped("one two three", 13, 0), "one two three");
  EXPECT_EQ(Wrapped("one two three", 12, 2), "one two\n  three");
  EXPECT_EQ(Wrapped("a_word_that_is_too_long for it", 10, 2), "a_word_that_is_too_long\n  for it");
  EXPECT_EQ(Wrapped("1.45 ±0.01 ±0.02", 16, 0), "1.45 ±0.01 ±0.02");
  EXPECT_EQ(Wrapped("\033[31mred\033[0m is red", 10, 0), "\033[31mred\033[0m is red");
}

TEST(Filled, BreaksNamesBehindTheirParts) {
  const auto parts = SplitBehind("Race/Horse/laps:2", '/');
  EXPECT_EQ(parts, (std::vector<std::string>{"Race/", "Horse/", "laps:2"}));
  EXPECT_EQ(Filled(parts, 11, 2), "Race/Horse/\n  laps:2");
  EXPECT_EQ(Filled(parts, 17, 2), "Race/Horse/laps:2");
}

TEST(Shortened, SaysThatSomethingIsMissing) {
  EXPECT_EQ(Shortened("Race/Horse", 10), "Race/Horse");
  EXPECT_EQ(Shortened("Race/Horse", 9), "Race/H...");
  EXPECT_EQ(Shortened("±±±±±±", 5), "±±...");
}

class FindScreenTest : public testing::Test {
 public:
  ~FindScreenTest() override { unsetenv("NO_COLOR"); }

 protected:
  FindScreenTest() {
    unsetenv("NO_COLOR");
    setenv("TERM", "xterm", 1);
  }
};

TEST_F(FindScreenTest, UsesTheRequestedColumns) {
  const Screen terminal = FindScreen(100, std::nullopt);
  EXPECT_EQ(terminal.columns, 100U);
  EXPECT_TRUE(terminal.is_terminal);
  EXPECT_TRUE(terminal.has_colour);
  const Screen pipe = FindScreen(0, std::nullopt);
  EXPECT_EQ(pipe.columns, 80U);
  EXPECT_FALSE(pipe.is_terminal);
  EXPECT_FALSE(pipe.has_colour);
}

TEST_F(FindScreenTest, HasNoColourOnRequest) {
  setenv("TERM", "dumb", 1);
  EXPECT_FALSE(FindScreen(100, std::nullopt).has_colour);
  setenv("TERM", "xterm", 1);
  setenv("NO_COLOR", "1", 1);
  EXPECT_FALSE(FindScreen(100, std::nullopt).has_colour);
  EXPECT_TRUE(FindScreen(100, true).has_colour);
  setenv("NO_COLOR", "", 1);
  EXPECT_TRUE(FindScreen(100, std::nullopt).has_colour);
  EXPECT_FALSE(FindScreen(100, false).has_colour);
  EXPECT_TRUE(FindScreen(0, true).has_colour);
}

}  // namespace
}  // namespace overlapbench
