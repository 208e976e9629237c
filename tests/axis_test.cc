// Axis values: what is read, what is refused and with which words, and the names they make.
#include "workload/axis.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "device/error.h"

namespace overlapbench {
namespace {

Axis AnyBytes() { return BytesAxis("bytes", "", "1M"); }
Axis AnyGrid() { return GridAxis("grid", "", "1x1"); }
Axis FromOneToTen() { return IntegerAxis("count", "", 1, 10, "1"); }
Axis Place() { return ChoiceAxis("place", "", {"out", "in"}, "out", "out"); }

// What the UsageError says that reading `text` must throw.
std::string Refusal(const Axis& axis, const std::string& text) {
  try {
    const auto values = ReadValues(axis, text);
    ADD_FAILURE() << axis.name << " took '" << text << "' as " << values.front();
  } catch (const UsageError& error) {
    return error.what();
  }
  return "";
}

TEST(BytesAxis, ReadsSuffixesAsPowersOf1024) {
  EXPECT_EQ(
      ReadValues(AnyBytes(), "1,4096,1K,64M,2G,1T"),
      (std::vector<std::string>{"1", "4096", "1024", "67108864", "2147483648", "1099511627776"}));
}

TEST(BytesAxis, ReadsTheLargestSizeThatFits) {
  EXPECT_EQ(ReadValues(AnyBytes(), "9223372036854775807,8388607T"),
            (std::vector<std::string>{"9223372036854775807", "9223370937343148032"}));
}

TEST(BytesAxis, RefusesValuesThatAreNotSizes) {
  for (const auto* text : {"", "K", "0", "-1", "-1M", "1.5M", "12Q", "1k", "1MB", "1MM", " 1M",
                           "1M ", "+1", "0x10", "9223372036854775808", "8388608T", "many"}) {
    EXPECT_NE(Refusal(AnyBytes(), text).find("'" + std::string(text) + "' is not a size"),
              std::string::npos);
  }
}

TEST(GridAxis, ReadsBothSidesOrOneForBoth) {
  EXPECT_EQ(ReadValues(AnyGrid(), "1x2,16x16,8,32768x1"),
            (std::vector<std::string>{"1x2", "16x16", "8x8", "32768x1"}));
}

TEST(GridAxis, RefusesValuesThatAreNotGrids) {
  for (const auto* text : {"", "x", "1x", "x1", "0x1", "1x0", "-1x1", "1x1x1", "1X1", "32769x1",
                           "1x99999999999999999999", "1.5x1"}) {
    EXPECT_NE(Refusal(AnyGrid(), text).find("is not a grid"), std::string::npos);
  }
}

TEST(IntegerAxis, RefusesValuesOutOfBounds) {
  EXPECT_EQ(ReadValues(FromOneToTen(), "1,10,007"), (std::vector<std::string>{"1", "10", "7"}));
  for (const auto* text : {"", "0", "11", "-1", "1K", "two", "1.0", "99999999999999999999"}) {
    EXPECT_NE(Refusal(FromOneToTen(), text).find("is not a whole number from 1 to 10"),
              std::string::npos);
  }
}

TEST(IntegerAxis, TakesSizesAsWell) {
  const Axis columns = IntegerAxis("columns", "", 1, 262144, "4K");
  EXPECT_EQ(columns.values, std::vector<std::string>{"4096"});
  EXPECT_EQ(ReadValues(columns, "1K,2048"), (std::vector<std::string>{"1024", "2048"}));
}

TEST(ChoiceAxis, ErrorsListTheChoices) {
  EXPECT_EQ(ReadValues(Place(), "in,out"), (std::vector<std::string>{"in", "out"}));
  EXPECT_EQ(Refusal(Place(), "IN"), "axis place: 'IN' is not one of out, in; did you mean in?");
  EXPECT_EQ(Refusal(Place(), "none"), "axis place: 'none' is not one of out, in");
}

TEST(OrAuto, TakesAutoAndWhatTheAxisTakes) {
  const Axis axis = OrAuto(IntegerAxis("chunks", "", 1, 8, "1"), "auto,4");
  EXPECT_EQ(Refusal(axis, "atuo"),
            "axis chunks: 'atuo' is not a whole number from 1 to 8; did you mean auto?");
  EXPECT_EQ(axis.values, (std::vector<std::string>{"auto", "4"}));
  EXPECT_EQ(ReadValues(axis, "8,auto"), (std::vector<std::string>{"8", "auto"}));
  EXPECT_THROW(ReadValues(axis, "9"), UsageError);
  EXPECT_THROW(ReadValues(axis, "best"), UsageError);
}

TEST(OrWord, LeavesTheWordOutOfNamesWhereItStands) {
  const Axis axis = OrWord(IntegerAxis("hidden", "", 1, 99, "1"), "model", "model,8", "model");
  std::vector<std::string> names;
  for (const Settings& settings : Combinations({axis})) names.push_back(settings.NameSuffix());
  EXPECT_EQ(names, (std::vector<std::string>{"", "/hidden:8"}));
  EXPECT_THROW(ReadValues(axis, "100"), UsageError);
  EXPECT_THROW(ReadValues(axis, "auto"), UsageError);
}

TEST(ReadValues, RefusesAnEmptyItemInAList) {
  for (const auto* text : {"1M,", ",1M", "1M,,2M"}) {
    EXPECT_EQ(Refusal(AnyBytes(), text).find("axis bytes: '' is not a size"), 0U);
  }
}

// A name identifies a configuration for ever, so one value must have one form.
TEST(CanonicalForm, IsIdempotent) {
  struct Case {
    Axis axis;
    std::vector<std::string> texts;
  };
  for (const auto& [axis, texts] :
       {Case{AnyBytes(), {"1", "1K", "64M", "2G", "8388607T", "0010"}},
        Case{AnyGrid(), {"1", "4x4", "04x4", "32768x32768"}},
        Case{FromOneToTen(), {"1", "03", "10"}}, Case{Place(), {"in", "out"}}}) {
    for (const auto& text : texts) {
      const std::string canonical = axis.canonical(text);
      EXPECT_EQ(axis.canonical(canonical), canonical) << axis.name << " " << text;
    }
  }
}

TEST(Settings, FormTheNameInAxisOrder) {
  Settings settings;
  settings.Set(AnyBytes(), "1048576");
  settings.Set(AnyGrid(), "16x8");
  EXPECT_EQ(settings.NameSuffix(), "/bytes:1048576/grid:16x8");
}

TEST(Settings, OmitStandingValues) {
  Settings standing;
  standing.Set(AnyBytes(), "1048576");
  standing.Set(Place(), "out");
  EXPECT_EQ(standing.NameSuffix(), "/bytes:1048576");
  EXPECT_EQ(standing.Text("place"), "out");
  Settings other;
  other.Set(AnyBytes(), "1048576");
  other.Set(Place(), "in");
  EXPECT_EQ(other.NameSuffix(), "/bytes:1048576/place:in");
}

// The first default differs from the standing value, as where a family measures another one first.
TEST(Settings, OfAxesHaveTheStandingValueUnlessOneIsGiven) {
  const std::vector<Axis> axes = {ChoiceAxis("place", "", {"out", "in"}, "in,out", "out"),
                                  BytesAxis("bytes", "", "2K,1K")};
  EXPECT_EQ(SettingsOf(axes, {}).Text("place"), "out");
  EXPECT_EQ(SettingsOf(axes, {}).NameSuffix(), "/bytes:2048");
  EXPECT_EQ(SettingsOf(axes, {{"place", "in"}, {"bytes", "1K"}}).NameSuffix(),
            "/place:in/bytes:1024");
}

TEST(Settings, AreReadByAxis) {
  Settings settings;
  settings.Set(AnyBytes(), "1048576");
  settings.Set(AnyGrid(), "16x8");
  EXPECT_TRUE(settings.Has("grid"));
  EXPECT_EQ(settings.Integer("bytes"), 1 << 20);
  EXPECT_EQ(settings.Grid("grid").x, 16);
  EXPECT_EQ(settings.Grid("grid").y, 8);
  EXPECT_FALSE(settings.Has("place"));
  EXPECT_THROW((void)settings.Text("place"), Error);
}

TEST(Settings, WithReturnsAChangedCopy) {
  Settings settings;
  settings.Set(AnyBytes(), "1048576");
  settings.Set(Place(), "out");
  EXPECT_EQ(settings.With("bytes", "64").With("place", "in").NameSuffix(), "/bytes:64/place:in");
  EXPECT_EQ(settings.With("place", "in").With("place", "out").NameSuffix(), "/bytes:1048576");
  EXPECT_EQ(settings.NameSuffix(), "/bytes:1048576");
}

TEST(Settings, WithAddsAMissingAxisThatNamesOmit) {
  const Settings settings = Settings().With("grid", "4x4").With("grid", "8x2");
  EXPECT_EQ(settings.Grid("grid").x, 8);
  EXPECT_EQ(settings.NameSuffix(), "");
}

TEST(AxisFlag, SplitsAtTheFirstEqualsSign) {
  const AxisOverride flag = ParseAxisFlag("bytes=1M,64M");
  EXPECT_EQ(flag.name, "bytes");
  EXPECT_EQ(flag.values, "1M,64M");
}

TEST(AxisFlag, NeedsANameAndAValue) {
  for (const auto* text : {"", "bytes", "bytes=", "=1M", "="}) {
    EXPECT_THROW(ParseAxisFlag(text), UsageError) << text;
  }
}

TEST(Combinations, VaryTheLastAxisFastest) {
  const std::vector<Axis> axes = {BytesAxis("bytes", "", "1K,2K"), GridAxis("grid", "", "1,2,3")};
  std::vector<std::string> names;
  for (const auto& settings : Combinations(axes)) names.push_back(settings.NameSuffix());
  EXPECT_EQ(names, (std::vector<std::string>{"/bytes:1024/grid:1x1", "/bytes:1024/grid:2x2",
                                             "/bytes:1024/grid:3x3", "/bytes:2048/grid:1x1",
                                             "/bytes:2048/grid:2x2", "/bytes:2048/grid:3x3"}));
}

TEST(Combinations, NoAxesGiveOneEmptySettings) {
  const auto all = Combinations({});
  ASSERT_EQ(all.size(), 1U);
  EXPECT_EQ(all.front().NameSuffix(), "");
}

}  // namespace
}  // namespace overlapbench
