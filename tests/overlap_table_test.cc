// The tables at the end of a run: the report's form, what is marked, and the width.
#include "report/overlap_table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>
#include <string>
#include <vector>

namespace overlapbench {
namespace {

Row Measured(const std::string& name, double slowdown = 1.25) {
  Row row;
  row.name = name;
  row.counters = {{"comp_ms", 4},         {"comm_ms", 2},      {"overlap_ms", 5},
                  {"slowdown", slowdown}, {"efficiency", 0.5}, {"valid", 1}};
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

TEST(OverlapTables, HasALineForEachGridInTheOrderOfTheRows) {
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

TEST(OverlapTables, KeepsCurvesOfDifferentSettingsApart) {
  const std::string text =
      OverlapTables({Measured(kGemm + "1x1/cache:cold"), Measured(kGemm + "2x2/cache:cold"),
                     Measured(kGemm + "1x1/cache:warm"), Measured(kGemm + "2x2/cache:warm")});
  EXPECT_NE(text.find("bytes:64M cache:cold\n"), std::string::npos);
  EXPECT_NE(text.find("bytes:64M cache:warm\n"), std::string::npos);
}

TEST(OverlapTables, PutsPairsWithoutACurveInOneTable) {
  const std::string text =
      OverlapTables({Measured("Overlap/AllReduce+StreamKernel/bytes:1048576"),
                     Measured("Overlap/AllReduce+StreamKernel/bytes:8388608"),
                     Measured("Overlap/AllToAll+Gemm/bytes:1048576/grid:8x8")});
  EXPECT_NE(text.find("\nAllReduce+StreamKernel\n"), std::string::npos);
  EXPECT_EQ(WordsOf(text, "  bytes:8M"),
            (std::vector<std::string>{"bytes:8M", "4.000", "2.000", "5.000", "1.25", "0.50"}));
  EXPECT_EQ(WordsOf(text, "  bytes:1M grid:8x8").size(), 7U);
}

TEST(OverlapTables, MarksErrorRowsAndInvalidRowsAndNoOthers) {
  Row failed = Measured(kGemm + "1x1");
  failed.error = "wrong result";
  Row invalid = Measured(kGemm + "2x2");
  invalid.counters["valid"] = 0;
  const std::string text = OverlapTables({failed, invalid, Measured(kGemm + "4x4")});
  EXPECT_EQ(WordsOf(text, "1x1"), (std::vector<std::string>{"1x1", "error:", "see", "above"}));
  EXPECT_EQ(WordsOf(text, "2x2").back(), "invalid");
  EXPECT_EQ(WordsOf(text, "4x4").back(), "0.50");
}

TEST(OverlapTables, AreEmptyWithoutOverlapRows) {
  EXPECT_EQ(OverlapTables({}), "");
  EXPECT_EQ(OverlapTables({Measured("Comm/AllToAll/bytes:1"), Measured("Compute/Gemm/grid:1x1")}),
            "");
}

TEST(OverlapTables, NeverAreWiderThan100Columns) {
  std::string many_axes;
  for (char axis = 'a'; axis <= 'z'; ++axis)
    many_axes += std::string("/axis_") + axis + ":12345678";
  std::vector<Row> rows;
  for (const auto* grid : {"1x1", "32768x32768"}) {
    rows.push_back(Measured(kGemm + grid + many_axes));
    rows.push_back(Measured(std::string("Overlap/AllToAll+Gemm/grid:") + grid, 123456.789));
  }
  rows.push_back(Measured("Overlap/HostToDevice+StreamKernel" + many_axes));
  rows.back().counters["comp_ms"] = rows.back().counters["overlap_ms"] = 123456.789;
  rows.back().counters["efficiency"] = -12345.67;
  rows.back().counters["valid"] = 0;
  rows.push_back(Measured("Overlap/AllReduce+CublasGemm/bytes:1073741824/n:8192/precision:bf16"));
  const auto lines = Lines(OverlapTables(rows));
  EXPECT_GT(lines.size(), rows.size());
  for (const auto& line : lines) EXPECT_LE(line.size(), 100U) << line;
}

}  // namespace
}  // namespace overlapbench
