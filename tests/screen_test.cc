// The layout of text: widths of non-ASCII text, line breaks, and when colour is used.
#include "report/screen.h"

#include <gtest/gtest.h>
#include <pty.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <string_view>

namespace overlapbench {
namespace {

TEST(WidthOf, CountsVisibleCharacters) {
  EXPECT_EQ(WidthOf("1.45 ±0.01"), 10U);
  EXPECT_EQ(WidthOf("\033[32mgreen\033[0m"), 5U);
  EXPECT_EQ(WidthOf(""), 0U);
  EXPECT_EQ(WidthOf("\033[3"), 0U);
  EXPECT_EQ(WidthOf(std::string_view("a\xb1", 1)), 1U) << "what follows is no part of it";
}

TEST(Wrapped, BreaksOnlyBetweenWords) {
  EXPECT_EQ(Wrapped("one two three", 13, 0), "one two three");
  EXPECT_EQ(Wrapped("one two three", 12, 2), "one two\n  three");
  EXPECT_EQ(Wrapped("one two three", 7, 0), "one two\nthree");
  EXPECT_EQ(Wrapped("one two three", 6, 0), "one\ntwo\nthree");
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
  EXPECT_EQ(FindScreen(41, std::nullopt).columns, 41U);
  EXPECT_EQ(FindScreen(1, std::nullopt).columns, 40U) << "narrower ones are taken for that";
  EXPECT_TRUE(FindScreen(1, std::nullopt).is_terminal);
  const Screen pipe = FindScreen(0, std::nullopt);
  EXPECT_EQ(pipe.columns, 80U);
  EXPECT_FALSE(pipe.is_terminal);
  EXPECT_FALSE(pipe.has_colour);
}

TEST_F(FindScreenTest, HasTheColumnsOfTheTerminal) {
  const int before = dup(STDOUT_FILENO);
  if (before < 0) FAIL() << "dup failed";
  std::array<std::size_t, 2> found{};
  for (const unsigned short columns : {133, 0}) {
    int terminal = -1;
    int end = -1;
    const winsize size{50, columns, 0, 0};
    ASSERT_EQ(openpty(&terminal, &end, nullptr, nullptr, &size), 0);
    dup2(end, STDOUT_FILENO);
    const Screen screen = FindScreen(std::nullopt, std::nullopt);
    found.at(columns == 0 ? 1 : 0) = screen.is_terminal ? screen.columns : 0;
    close(terminal);
    close(end);
  }
  dup2(before, STDOUT_FILENO);
  close(before);
  EXPECT_EQ(found[0], 133U);
  EXPECT_EQ(found[1], 0U) << "under a launcher it has no width";
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
