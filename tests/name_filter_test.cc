// Which names a filter selects, and which filters are refused before they end or stall the program.
#include "benchmarks/name_filter.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "device/error.h"

namespace overlapbench {
namespace {

bool Selects(const std::string& filter, const std::string& name) {
  return NameFilter("--filter", filter).Matches(name);
}

std::string RefusalOf(const std::string& filter, const std::string& name) {
  try {
    RequireUsableFilter("--filter", filter, [&] { return std::vector{name}; });
    static_cast<void>(Selects(filter, name));
  } catch (const UsageError& error) {
    return error.what();
  }
  return "";
}

TEST(NameFilter, SelectsNamesWithAMatchAnywhere) {
  EXPECT_TRUE(Selects("", "Comm/AllReduce"));
  EXPECT_TRUE(Selects("AllR", "Comm/AllReduce"));
  EXPECT_FALSE(Selects("^AllR", "Comm/AllReduce"));
  EXPECT_TRUE(Selects("Reduce$|Gemm", "Comm/AllReduce"));
}

TEST(NameFilter, ADashSelectsTheOthers) {
  EXPECT_FALSE(Selects("-AllR", "Comm/AllReduce"));
  EXPECT_TRUE(Selects("-AllR", "Comm/AllGather"));
}

TEST(NameFilter, ASizeMayHaveAUnit) {
  EXPECT_TRUE(Selects("bytes:64M", "Comm/AllReduce/bytes:67108864"));
  EXPECT_FALSE(Selects("bytes:64M", "Comm/AllReduce/bytes:6710886"));
}

TEST(NameFilter, WhatIsNoExpressionIsRefused) {
  EXPECT_EQ(RefusalOf("(", "name"), "--filter: '(' is not a regular expression");
}

TEST(RequireUsableFilter, RefusesWhatOverflowsTheStackOrTakesSeconds) {
  EXPECT_EQ(RefusalOf("(a|b)+c?", "abab"), "");
  const std::string slow = "(a*)*(a*)*(a*)*(a*)*b";
  EXPECT_EQ(RefusalOf(slow, std::string(5000, 'a')),
            "--filter: '" + slow + "' takes more than 2 s to match; simplify it");
  const std::string deep = std::string(200'000, '(') + std::string(200'000, ')');
  EXPECT_EQ(RefusalOf(deep, "name"),
            "--filter: '" + ShownFilter(deep) + "' is too long or too deeply nested; simplify it");
}

TEST(ShownFilter, CutsWhatIsLong) {
  EXPECT_EQ(ShownFilter(std::string(300, 'x')), std::string(300, 'x'));
  EXPECT_EQ(ShownFilter(std::string(301, 'x')), std::string(60, 'x') + "… (301 characters)");
}

TEST(WithPlusEscaped, EscapesWhatIsNotYet) {
  EXPECT_EQ(WithPlusEscaped("A+B"), R"(A\+B)");
  EXPECT_EQ(WithPlusEscaped(R"(A\+B+)"), R"(A\+B\+)");
  EXPECT_EQ(WithPlusEscaped(R"(A\\+B\)"), R"(A\\\+B\)");
  EXPECT_TRUE(Selects(WithPlusEscaped("AllReduce+Gemm"), "Overlap/AllReduce+Gemm"));
}

}  // namespace
}  // namespace overlapbench
