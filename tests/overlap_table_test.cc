// The tables at the end of a run: the report's form, what is marked, and the width.
#include "report/overlap_table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>
#include <string>
#include <vector>

#include "report/row_name.h"

namespace overlapbench {
namespace {

Row Measured(const std::string& name, double slowdown = 1.25) {
  Row row;
  row.name = name;
  const std::string key = "/grid:";
  if (const auto grid = name.find(key); grid != std::string::npos) {
    const auto value = grid + key.size();
    row.settings = row.settings.With("grid", name.substr(value, name.find('/', value) - value));
  }
  row.counters = {{"comp_ms", 4},
                  {"comm_ms", 2},
                  {"overlap_ms", 5},
                  {"slowdown", slowdown},
                  {"efficiency", 0.5}};
  return row;
}

std::vector<std::string> Lines(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

// The words of the first line that begins with `beginning`.
std::vector<std::string> WordsOf(const std::string& text, const std::string& beginning) {
  for (const auto& line : Lines(text)) {
    if (!line.starts_with(beginning)) continue;
    std::istringstream stream(line);
    std::vector<std::string> words;
    for (std::string word; stream >> word;) words.push_back(word);
    return words;
  }
  return {};
}

const std::string kGemm = "Overlap/AllToAll+Gemm/bytes:67108864/grid:";

TEST(RowName, IsSplitBeforeItsFirstAxis) {
  const auto split = [](const std::string& name) {
    const auto [scenario, axes] = Split(name);
    return scenario + " " + axes;
  };
  EXPECT_EQ(split("Race/Horse/laps:2/ground:soft"), "Race/Horse /laps:2/ground:soft");
  EXPECT_EQ(split("Race/Horse"), "Race/Horse ");
  EXPECT_EQ(split("laps:2/x"), "laps:2/x ");
}

TEST(RowName, LosesOneAxis) {
  EXPECT_EQ(WithoutAxis("/a:1/grid:2/b:3", "grid"), "/a:1/b:3");
  EXPECT_EQ(WithoutAxis("/a:1/grid:2", "grid"), "/a:1");
  EXPECT_EQ(WithoutAxis("/grid:2/a:1", "grid"), "/a:1");
  EXPECT_EQ(WithoutAxis("/a:1/subgrid:2", "grid"), "/a:1/subgrid:2");
}

TEST(RowName, HasReadableAxes) {
  EXPECT_EQ(ReadableAxes("/bytes:1048576/n:2048/array_bytes:1536"),
            "bytes:1M n:2048 array_bytes:1536");
  EXPECT_EQ(ReadableAxes("/a:2048"), "a:2048");
  EXPECT_EQ(ReadableAxes(""), "");
}

// What stands where, to the letter.
TEST(OverlapTables, AreThisText) {
  std::vector<Row> rows;
  for (const RowState state : {RowState::kOk, RowState::kSerialized, RowState::kNoisy,
                               RowState::kInvalid, RowState::kError, RowState::kControl}) {
    rows.push_back(Measured(kGemm + std::to_string(rows.size() + 1) + "x1", 1.25));
    rows.back().state = state;
  }
  rows[1].counters["slowdown"].interval = {1.15, 1.35};
  rows[2].counters["comp_ms"] = {12345.678, Interval{12345, 12346.5}};
  rows.push_back(rows.back());
  rows.push_back(Measured("Overlap/B+C/bytes:4096"));
  rows.push_back(rows.back());
  rows.push_back(Measured("Overlap/A+C/a_long_axis_of_the_pair:1/another_long_axis_of_it:2"));
  rows.push_back(Measured("Overlap/A+C/grid:8"));
  rows.push_back(Measured("Overlapped/A+C/grid:8"));
  rows.push_back(Measured("Overlap/A+B/grid:8/cache:warm"));
  rows.push_back(Measured("Overlap/A+B/grid:9/cache:warm"));
  EXPECT_EQ(OverlapTables(rows), R"(
Overlap/AllToAll+Gemm  bytes:64M
grid                    C ms   M ms   T ms    slowdown  efficiency
1x1                    4.000  2.000  5.000        1.25        0.50
2x1                    4.000  2.000  5.000  1.25 ±0.10        0.50  serial
3x1          12345.678 ±0.82  2.000  5.000        1.25        0.50  noisy
4x1                    4.000  2.000  5.000        1.25        0.50  invalid
5x1                   error:    see  above
6x1                    4.000  2.000  5.000        1.25        0.50  control
6x1 #2                 4.000  2.000  5.000        1.25        0.50  control

Overlap/A+B  cache:warm
grid          C ms   M ms   T ms  slowdown  efficiency
8            4.000  2.000  5.000      1.25        0.50
9            4.000  2.000  5.000      1.25        0.50

Overlap pairs
pair                                    C ms   M ms   T ms  slowdown  efficiency
A+C
  grid:8                               4.000  2.000  5.000      1.25        0.50
  a_long_axis_of_the_pair:1 another_long_axis_of_it:2
                                       4.000  2.000  5.000      1.25        0.50
B+C
  bytes:4K                             4.000  2.000  5.000      1.25        0.50
  bytes:4K #2                          4.000  2.000  5.000      1.25        0.50

C computation alone, M communication alone, T both at once; slowdown = T /
max(C, M): 1.00 is perfect overlap; efficiency = (C + M - T) / min(C, M): 1
perfect, 0 one after the other. serial: both could run, but one waited for the
other; noisy: too uncertain; invalid: not a measurement. Each row says why.
)");
  const std::string narrow =
      OverlapTables({rows[3], rows[7]}, {.columns = 50, .has_colour = true}, {"s"});
  EXPECT_EQ(narrow.substr(0, narrow.find("\nC computation")),
            "\nOverlap pairs\n"
            "\033[36mpair              C s       M s       T s\n"
            "             slowdown  efficiency\033[0m\n"
            "AllToAll+Gemm\n"
            "  bytes:64M grid:4x1\n"
            "             0.004000  0.002000  0.005000\n"
            "                 1.25        0.50  \033[31minvalid\033[0m\n"
            "B+C\n"
            "  bytes:4K   0.004000  0.002000  0.005000\n"
            "                 1.25        0.50\n");
}

TEST(OverlapTables, BreakTitlesAndLabelsWithAnIndent) {
  const std::string axes = "/first_axis:1/second_axis:2/third_axis:3/fourth_axis:4";
  const Screen screen{.columns = 44};
  const std::string curve = OverlapTables(
      {Measured("Overlap/A+B" + axes + "/grid:1"), Measured("Overlap/A+B" + axes + "/grid:2")},
      screen);
  EXPECT_TRUE(
      curve.starts_with("\nOverlap/A+B  first_axis:1 second_axis:2\n"
                        "    third_axis:3 fourth_axis:4\ngrid "))
      << curve;
  const std::string pair = OverlapTables({Measured("Overlap/A+B" + axes)}, screen);
  EXPECT_NE(pair.find("\n  first_axis:1 second_axis:2 third_axis:3\n    fourth_axis:4\n"),
            std::string::npos)
      << pair;
}

// The label has no more room than the widest mark leaves.
TEST(OverlapTables, LeaveRoomForTheMarks) {
  Row row = Measured("Overlap/A+B/" + std::string(29, 'x') + ":1");
  const auto is_above = [&](RowState state) {
    row.state = state;
    return OverlapTables({row}).find("x:1\n") != std::string::npos;
  };
  EXPECT_FALSE(is_above(RowState::kOk));
  EXPECT_TRUE(is_above(RowState::kNoisy));
}

TEST(OverlapTables, HaveOneLinePerGridInTheOrderOfTheRows) {
  const std::string text = OverlapTables(
      {Measured(kGemm + "1x1/cache:cold", 1.08), Measured(kGemm + "16x16/cache:cold", 1.41)});
  EXPECT_NE(text.find("Overlap/AllToAll+Gemm  bytes:64M cache:cold\n"), std::string::npos);
  EXPECT_EQ(WordsOf(text, "grid"), (std::vector<std::string>{"grid", "C", "ms", "M", "ms", "T",
                                                             "ms", "slowdown", "efficiency"}));
  EXPECT_EQ(WordsOf(text, "1x1"),
            (std::vector<std::string>{"1x1", "4.000", "2.000", "5.000", "1.08", "0.50"}));
  EXPECT_EQ(WordsOf(text, "16x16"),
            (std::vector<std::string>{"16x16", "4.000", "2.000", "5.000", "1.41", "0.50"}));
  EXPECT_LT(text.find("\n1x1"), text.find("\n16x16"));
}

TEST(OverlapTables, SeparateCurvesOfDifferentSettings) {
  const std::string text =
      OverlapTables({Measured(kGemm + "1x1/cache:cold"), Measured(kGemm + "2x2/cache:cold"),
                     Measured(kGemm + "1x1/cache:warm"), Measured(kGemm + "2x2/cache:warm")});
  EXPECT_NE(text.find("bytes:64M cache:cold\n"), std::string::npos);
  EXPECT_NE(text.find("bytes:64M cache:warm\n"), std::string::npos);
}

TEST(OverlapTables, PutPairsWithoutACurveInOneTable) {
  const std::string text =
      OverlapTables({Measured("Overlap/AllReduce+StreamKernel/bytes:1048576"),
                     Measured("Overlap/AllReduce+StreamKernel/bytes:8388608"),
                     Measured("Overlap/AllToAll+Gemm/bytes:1048576/grid:8x8")});
  EXPECT_NE(text.find("\nAllReduce+StreamKernel\n"), std::string::npos);
  EXPECT_EQ(WordsOf(text, "  bytes:8M"),
            (std::vector<std::string>{"bytes:8M", "4.000", "2.000", "5.000", "1.25", "0.50"}));
  EXPECT_EQ(WordsOf(text, "  bytes:1M grid:8x8").size(), 7U);
}

TEST(OverlapTables, MarkRowsThatAreNotOk) {
  Row failed = Measured(kGemm + "1x1");
  failed.state = RowState::kError;
  Row invalid = Measured(kGemm + "2x2");
  invalid.state = RowState::kInvalid;
  Row serialized = Measured(kGemm + "3x3");
  serialized.state = RowState::kSerialized;
  Row with_finding = Measured(kGemm + "4x4");
  with_finding.reason = "a finding";
  const std::string text = OverlapTables({failed, invalid, serialized, with_finding});
  EXPECT_EQ(WordsOf(text, "1x1"), (std::vector<std::string>{"1x1", "error:", "see", "above"}));
  EXPECT_EQ(WordsOf(text, "2x2").back(), "invalid");
  EXPECT_EQ(WordsOf(text, "3x3").back(), "serial");
  EXPECT_EQ(WordsOf(text, "4x4").back(), "0.50");
}

TEST(OverlapTables, AreEmptyWithoutOverlapRows) {
  EXPECT_EQ(OverlapTables({}), "");
  EXPECT_EQ(OverlapTables({Measured("Comm/AllToAll/bytes:1"), Measured("Compute/Gemm/grid:1x1")}),
            "");
}

TEST(OverlapTables, ShowTheIntervalOfANumber) {
  Row row = Measured(kGemm + "1x1");
  row.counters["slowdown"].interval = {1.2387, 1.2613};
  row.counters["comp_ms"].interval = {3.9, 4.24};
  const std::string text = OverlapTables({row, Measured(kGemm + "2x2")});
  EXPECT_EQ(WordsOf(text, "1x1"),
            (std::vector<std::string>{"1x1", "4.000", "-0.10", "+0.24", "2.000", "5.000", "1.25",
                                      "±0.01", "0.50"}));
}

TEST(OverlapTables, ShowTimesInTheRequestedUnit) {
  const std::string text =
      OverlapTables({Measured(kGemm + "1x1"), Measured(kGemm + "2x2")}, {}, {"us"});
  EXPECT_EQ(WordsOf(text, "grid")[2], "us");
  EXPECT_EQ(WordsOf(text, "1x1"),
            (std::vector<std::string>{"1x1", "4000", "2000", "5000", "1.25", "0.50"}));
}

TEST(OverlapTables, CountRepetitions) {
  const Row row = Measured(kGemm + "1x1");
  const std::string text = OverlapTables({row, row, Measured(kGemm + "2x2")});
  EXPECT_EQ(WordsOf(text, "1x1 #2")[1], "#2");
  const std::string pair = OverlapTables({row, row});
  EXPECT_NE(pair.find("\n  bytes:64M grid:1x1     "), std::string::npos);
  EXPECT_NE(pair.find("\n  bytes:64M grid:1x1 #2  "), std::string::npos);
}

// Line breaks must not lose any text.
TEST(OverlapTables, AreFittedToTheScreenByBreakingLinesBetweenWords) {
  std::string many_axes;
  for (char axis = 'a'; axis <= 'z'; ++axis)
    many_axes += std::string("/axis_") + axis + ":12345678";
  std::vector<Row> rows;
  for (const auto* grid : {"1x1", "32768x32768"}) {
    rows.push_back(Measured(kGemm + grid + many_axes));
    rows.push_back(Measured(std::string("Overlap/AllToAll+Gemm/grid:") + grid, 123456.789));
  }
  rows.push_back(Measured("Overlap/HostToDevice+StreamKernel" + many_axes));
  for (const char* time : {"comp_ms", "comm_ms", "overlap_ms"})
    rows.back().counters[time] = {123456.789, Interval{123456.777, 123456.801}};
  rows.back().counters["efficiency"] = -12345.67;
  rows.back().state = RowState::kInvalid;
  rows.push_back(Measured("Overlap/AllReduce+CublasGemm/bytes:1073741824/n:8192/precision:bf16"));
  for (const std::size_t columns : {80U, 100U, 200U}) {
    for (const bool colour : {false, true}) {
      const std::string text =
          OverlapTables(rows, {.columns = columns, .is_terminal = true, .has_colour = colour});
      const auto lines = Lines(text);
      EXPECT_GT(lines.size(), rows.size());
      for (const auto& line : lines) EXPECT_LE(WidthOf(line), columns) << line;
      EXPECT_NE(text.find(" axis_z:12345678"), std::string::npos);
      EXPECT_NE(text.find("123456.789 ±0.012"), std::string::npos);
      EXPECT_EQ(text.find('\033') != std::string::npos, colour);
    }
  }
}

}  // namespace
}  // namespace overlapbench
