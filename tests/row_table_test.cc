// The table of rows: what is a heading, a column or a note, and that no line is wider than the
// terminal.
#include "report/row_table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "benchmarks/catalog.h"
#include "report/row_name.h"

namespace overlapbench {
namespace {

Row Measured(const std::string& name, double slowdown = 1.25) {
  Row row;
  row.name = name;
  row.time_ms = {5, Interval{4.99, 5.02}};
  row.counters = {{"comp_ms", {4, Interval{3.99, 4.01}}},
                  {"comm_ms", {2, Interval{1.98, 2.01}}},
                  {"overlap_ms", row.time_ms},
                  {"slowdown", {slowdown, Interval{slowdown - 0.01, slowdown + 0.03}}},
                  {"comp_slowdown", {1.2, Interval{1.19, 1.21}}},
                  {"comm_slowdown", {1.5, Interval{1.45, 1.6}}},
                  {"efficiency", {0.5, Interval{0.45, 0.52}}}};
  return row;
}

std::vector<std::string> LinesOf(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

RowTableOptions Options(std::size_t columns, const std::vector<Row>& rows, bool has_colour = false,
                        long repetitions = 1) {
  RowTableOptions options{.screen = {.columns = columns == 0 ? 80 : columns,
                                     .is_terminal = columns > 0,
                                     .has_colour = has_colour},
                          .repetitions = repetitions,
                          .serial_advice = "Start it first."};
  for (const Row& row : rows) options.planned.push_back(row.name);
  return options;
}

// What a run shows; `columns` 0: in a pipe.
std::string Shown(std::size_t columns, const std::vector<Row>& rows) {
  const CounterTable counters = AllCounters();
  RowTable table(counters, Options(columns, rows));
  std::string text;
  for (const Row& row : rows) text += table.LinesOf(row, 1);
  return text + table.End(rows);
}

std::vector<Row> EightRows() {
  std::vector<Row> rows;
  for (const char* const pair : {"AllToAll+CublasGemm", "AllReduce+CublasGemm",
                                 "AllGather+CublasGemm", "ReduceScatter+StreamKernel"}) {
    for (const char* const bytes : {"65536", "1073741824"}) {
      const bool stream = std::string(pair).ends_with("StreamKernel");
      rows.push_back(Measured(std::string("Overlap/") + pair + "/bytes:" + bytes +
                              (stream ? "/blocks:132" : "/n:8192/precision:bf16") + "/cache:cold"));
    }
  }
  rows[1].state = rows[3].state = RowState::kSerialized;
  rows[1].reason = "communication waited for the other side (coverage 0.02)";
  rows[3].reason = "communication waited for the other side (coverage 0.1)";
  rows[4].state = RowState::kNoisy;
  rows[4].reason = "known to ±7.5 % only";
  rows[4].counters["efficiency"] = {-12.48, Interval{-18.4, -6.6}};
  return rows;
}

// Eight rows take a heading, titles, and a line each.
TEST(RowTable, HasALineForEachRow) {
  EXPECT_EQ(Shown(80, EightRows()), R"(
Overlap  n:8192 precision:bf16 cache:cold blocks:132
pair                         bytes    T ms  slowdown  comp ×  comm ×
AllToAll+CublasGemm         64 KiB    5.00      1.25    1.20     1.5
AllToAll+CublasGemm          1 GiB    5.00      1.25    1.20     1.5  serial a
AllReduce+CublasGemm        64 KiB    5.00      1.25    1.20     1.5
AllReduce+CublasGemm         1 GiB    5.00      1.25    1.20     1.5  serial a
AllGather+CublasGemm        64 KiB    5.00      1.25    1.20     1.5  noisy b
AllGather+CublasGemm         1 GiB    5.00      1.25    1.20     1.5
ReduceScatter+StreamKernel  64 KiB    5.00      1.25    1.20     1.5
ReduceScatter+StreamKernel   1 GiB    5.00      1.25    1.20     1.5

C computation alone, M communication alone, T both at once. slowdown: T / max(C,
M), 1.00 is perfect overlap. comp ×, comm ×: what the sides cost each other,
each one's own time beside the other / alone.
a  communication waited for the other side (coverage …)
b  known to ±7.5 % only
2 of 8 rows are serial: both sides could run, but one waited for the other.
Start it first.
1 of 8 rows is noisy: measure on an idle machine, or raise --budget_ms.
)");
}

TEST(RowTable, HasMoreFiguresAndTheirIntervalsWhereThereIsRoom) {
  const auto titles = [](std::size_t columns) {
    return LinesOf(Shown(columns, EightRows())).at(2);
  };
  EXPECT_TRUE(titles(100).ends_with("comm ×    C ms    M ms")) << titles(100);
  EXPECT_TRUE(titles(120).ends_with("C ms    M ms  efficiency")) << titles(120);
  const auto lines = LinesOf(Shown(200, EightRows()));
  EXPECT_NE(lines.at(3).find("5.00 ±0.02       1.25 ±0.03     1.20 ±0.01      1.5 ±0.1"),
            std::string::npos)
      << lines.at(3);
  EXPECT_TRUE(lines.at(7).ends_with("?         noisy: known to ±7.5 % only")) << lines.at(7);
  EXPECT_NE(Shown(200, EightRows()).find("\n?: too uncertain to say anything.\n"),
            std::string::npos);
}

// Nothing is left out there, and each row has its own reason.
TEST(RowTable, HasEverythingInAPipe) {
  const std::string text = Shown(0, EightRows());
  EXPECT_NE(text.find("serial: communication waited for the other side (coverage 0.1)\n"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("efficiency\n"), std::string::npos);
  EXPECT_NE(text.find("1.25 ±0.03"), std::string::npos);
}

TEST(RowTable, PutsPartsThatAllRowsShareInTheHeading) {
  const auto heading = [](const std::vector<Row>& rows) { return LinesOf(Shown(80, rows)).at(1); };
  const std::string grid = "Overlap/AllToAll+Gemm/bytes:1048576/grid:";
  EXPECT_EQ(heading({Measured(grid + "1x1/cache:cold"), Measured(grid + "2x2/cache:cold")}),
            "Overlap/AllToAll+Gemm  bytes:1 MiB cache:cold");
  EXPECT_EQ(heading({Measured(grid + "1x1")}), "Overlap/AllToAll+Gemm  bytes:1 MiB grid:1x1");
  EXPECT_EQ(
      heading({Measured("Copy/Bandwidth/Up/bytes:1"), Measured("Copy/Bandwidth/Down/bytes:1")}),
      "Copy/Bandwidth  bytes:1 B");
  const std::vector<Row> controls = {Measured("Overlap/A+B/n:1"),
                                     Measured("Overlap/A+B/n:1/streams:1")};
  const auto lines = LinesOf(Shown(80, controls));
  EXPECT_EQ(lines.at(1), "Overlap/A+B  n:1");
  EXPECT_TRUE(lines.at(2).starts_with("streams    T ms ")) << lines.at(2);
  EXPECT_TRUE(lines.at(3).starts_with("      -    5.00 ")) << lines.at(3);
  EXPECT_TRUE(lines.at(4).starts_with("      1    5.00 ")) << lines.at(4);
}

// Each scenario has one value, but not the same one.
TEST(RowTable, HasAColumnForAnAxisThatTellsScenariosApart) {
  const auto lines = LinesOf(Shown(80, {Measured("Overlap/A+B/n:1"), Measured("Overlap/A+C/n:2")}));
  EXPECT_EQ(lines.at(1), "Overlap");
  EXPECT_TRUE(lines.at(2).starts_with("pair  n    T ms ")) << lines.at(2);
  EXPECT_TRUE(lines.at(4).starts_with("A+C   2    5.00 ")) << lines.at(4);
}

TEST(RowTable, StartsABlockWhereOtherColumnsDo) {
  const std::string text = Shown(
      80, {Measured("Overlap/A+B/bytes:1/cache:cold"), Measured("Overlap/A+B/bytes:2/cache:cold"),
           Measured("Comm/B/bytes:1/cache:cold"), Measured("Comm/B/bytes:2/cache:cold")});
  EXPECT_NE(text.find("\n\nComm/B  cache:cold\nbytes  time ms\n  1 B"), std::string::npos) << text;
}

// At most three axes beside the figures, and those of all rows. As many rows as possible go
// together.
TEST(RowTable, HasBlocksOfFewAxes) {
  const auto headings = [](const std::vector<std::string>& names) {
    std::vector<Row> rows;
    for (const std::string& name : names) rows.push_back(Measured("Overlap/" + name));
    std::string all;
    for (const std::string& line : LinesOf(Shown(80, rows)))
      if (line.starts_with("Overlap"))
        all += line + "\n";
      else if (const auto end = line.find("  T ms"); end != std::string::npos)
        all += "[" + line.substr(0, end) + "]\n";
    return all;
  };
  EXPECT_EQ(headings({"A+B/a:1/b:1/c:1/d:1", "A+B/a:2/b:1/c:1/d:1", "A+B/a:2/b:2/c:1/d:1",
                      "A+B/a:2/b:2/c:2/d:1", "A+B/a:2/b:2/c:2/d:2"}),
            "Overlap/A+B  d:1\n[a  b  c  ]\nOverlap/A+B  a:2 b:2 c:2 d:2\n[]\n");
  EXPECT_EQ(headings({"A+B/n:1", "A+B/n:2", "A+C/m:1", "A+C/m:2"}),
            "Overlap/A+B\n[n  ]\nOverlap/A+C\n[m  ]\n");
}

// Unless the names leave no room for figures. A pipe has 120 columns.
TEST(RowTable, HasBlocksWhoseFiguresHaveRoom) {
  const auto blocks = [](std::size_t columns, std::size_t length) {
    const std::string name = "Overlap/" + std::string(length, 'A') + "+B";
    const auto lines = LinesOf(Shown(columns, {Measured(name), Measured(name + "C")}));
    return std::ranges::count_if(lines, [](const auto& one) { return one.starts_with("Overlap"); });
  };
  // Figures need 32 columns or a third of them, the mark 11, and a gap takes 2.
  for (const auto& [columns, most] :
       {std::pair{80U, 80U - 26 - 11 - 2}, {120U, 120U - 32 - 11 - 2}, {0U, 120U - 32 - 11 - 2}}) {
    EXPECT_EQ(blocks(columns, most - 3), 1) << columns;
    EXPECT_EQ(blocks(columns, most - 2), 2) << columns;
  }
}

// Figures are those of numbers, not of names.
TEST(RowTable, NotesWhatReasonsHaveInCommon) {
  std::vector<Row> rows;
  const auto add = [&](RowState state, const std::string& reason) {
    rows.push_back(Measured("Overlap/A+B/n:" + std::to_string(rows.size())));
    rows.back().state = state;
    rows.back().reason = reason;
  };
  const std::string begin = "GPU2 of x4 and a_1 took ";
  const std::string end = " one of all that are here and there";
  add(RowState::kNoisy, begin + "1,024.5 us, 1e3 more than the 7." + end);
  add(RowState::kNoisy, begin + "9 us, 5 more than the 123456." + end);
  for (int i = 1; i < 28; ++i)
    add(RowState::kControl,
        "a reason of its own that is too long for a line: " + std::string(i, 'x'));
  const CounterTable counters = AllCounters();
  RowTable table(counters, Options(80, rows, true));
  std::vector<std::string> marks;
  for (const Row& row : rows) {
    const std::string line = LinesOf(table.LinesOf(row, 1)).back();
    marks.push_back(line.substr(line.rfind("\033[", line.rfind("\033[") - 1)));
  }
  EXPECT_EQ(marks[0], "\033[33mnoisy\033[0m a");
  EXPECT_EQ(marks[1], marks[0]);
  EXPECT_EQ(marks[2], "\033[32mcontrol\033[0m b");
  EXPECT_EQ(marks[26], "\033[32mcontrol\033[0m z");
  EXPECT_EQ(marks[27], "\033[32mcontrol\033[0m aa");
  EXPECT_EQ(marks[28], "\033[32mcontrol\033[0m ab");
  const std::string notes = table.End(rows);
  EXPECT_NE(notes.find("\na  " + begin +
                       "… us, … more than the …. one of all that are here and\n   "
                       "there\nb  "),
            std::string::npos)
      << notes;
}

TEST(RowTable, TellsRepetitionsApart) {
  const CounterTable counters = AllCounters();
  const std::vector<Row> rows = {Measured("Overlap/A+B/bytes:1")};
  RowTable table(counters, Options(80, rows, false, 12));
  EXPECT_EQ(LinesOf(table.LinesOf(rows[0], 1)).back().substr(0, 8), " 1    5.");
  EXPECT_EQ(table.LinesOf(rows[0], 12).substr(0, 8), "12    5.");
}

// Nothing of a reason is lost, and nothing takes another row's place.
TEST(RowTable, ShowsErrorsAndRowsThatWereNotPlanned) {
  Row failed = Measured("Overlap/A+B/bytes:1048576");
  failed.state = RowState::kError;
  failed.reason = "it fell at the second of three fences, and at the third one";
  const std::vector<Row> rows = {failed, Measured("Overlap/A+B/bytes:2")};
  const CounterTable counters = AllCounters();
  RowTable table(counters, Options(52, rows, true));
  EXPECT_EQ(
      table.LinesOf(failed, 1),
      "\n\033[32mOverlap/A+B\033[0m\n\033[36mbytes\033[0m\n1 MiB  \033[31mERROR\033[0m: it fell "
      "at the second of three fences,\n    and at the third one\n");
  EXPECT_EQ(LinesOf(table.LinesOf(rows[1], 1)).back(), "  2 B    5.00      1.25    1.20     1.5");
  Row other = Measured("Overlap/C+D/n:1");
  other.state = RowState::kInvalid;
  const auto lines = LinesOf(table.LinesOf(other, 1));
  EXPECT_EQ(lines.at(1), "\033[32mOverlap/C+D  n:1\033[0m");
  EXPECT_TRUE(lines.back().ends_with("  \033[31minvalid\033[0m")) << lines.back();
}

// A counter that only later rows have gets its column then.
TEST(RowTable, RepeatsTitlesWhenTheyChange) {
  Row first = Measured("Comm/AllReduce/bytes:1");
  Row second = Measured("Comm/AllReduce/bytes:2");
  second.counters["busbw_GBps"] = 312.44;
  const CounterTable counters = AllCounters();
  RowTable table(counters, Options(80, {first, second}));
  EXPECT_EQ(LinesOf(table.LinesOf(first, 1)).at(2), "bytes  time ms");
  EXPECT_EQ(table.LinesOf(second, 1),
            "bytes  time ms         busbw GB/s\n  2 B     5.00 ±0.02        312.4\n");
  EXPECT_EQ(table.LinesOf(second, 1), "  2 B     5.00 ±0.02        312.4\n");
}

// The progress line must show what distinguishes a row.
TEST(RowTable, LabelsARowByWhatDistinguishesIt) {
  const auto rows = EightRows();
  const CounterTable counters = AllCounters();
  const RowTable table(counters, Options(80, rows));
  EXPECT_EQ(table.LabelOf(rows[1].name), "AllToAll+CublasGemm bytes:1 GiB");
  EXPECT_EQ(table.LabelOf("Comm/A/bytes:1"), "Comm/A/bytes:1");
  const RowTable alone(counters, Options(80, {rows[1]}));
  EXPECT_EQ(alone.LabelOf(rows[1].name), rows[1].name);
}

// Of all rows that there are, with every counter that they lead with, in each state.
TEST(RowTable, HasNoLineWiderThanTheTerminal) {
  const CounterTable counters = AllCounters();
  for (const char* const file : {"/names-cuda.txt", "/names-host.txt"}) {
    std::vector<Row> rows;
    std::ifstream names(std::string(TEST_DATA) + file);
    for (std::string name; std::getline(names, name);) {
      Row row = Measured(name);
      row.time_ms = {12345.678, Interval{12345.1, 12346}};
      const FamilyText* family = counters.FamilyOf(name);
      ASSERT_NE(family, nullptr) << name;
      for (const std::string& counter : family->lead)
        row.counters[counter] = {-1234.567, Interval{-1234.9, -1234.1}};
      row.state = static_cast<RowState>(rows.size() % 6);
      row.reason = "a reason of many words, that takes more than the sixty columns of a terminal";
      rows.push_back(row);
    }
    ASSERT_GT(rows.size(), 200U);
    for (const std::size_t columns : {60U, 80U, 120U, 200U}) {
      RowTable table(counters, Options(columns, rows, true, 100));
      std::size_t lines = 0;
      for (const Row& row : rows) {
        for (const std::string& line : LinesOf(table.LinesOf(row, 1))) {
          ++lines;
          EXPECT_LE(WidthOf(line), columns) << line;
        }
      }
      for (const std::string& line : LinesOf(table.End(rows)))
        EXPECT_LE(WidthOf(line), columns) << line;
      // A line a row, and seldom a heading; an error's reason takes another line.
      if (columns >= 80) {
        EXPECT_LE(lines, rows.size() * 2) << columns;
      }
    }
  }
}

}  // namespace
}  // namespace overlapbench
