// RowTable: the table of a run's rows, written while they end: one line a row.
//
// It knows the names of all rows before the first has ended. Rows with the same columns make a
// block. What their names share stands in the block's heading; what distinguishes them, in columns:
//
//   Overlap  n:4096 grid:64x64 work:tile cache:cold
//   pair               bytes   T ms  slowdown  comp ×  comm ×
//   AllGather+Gemm     1 MiB  3.396      1.00    1.00    1.05
//   AllGather+Gemm    64 MiB  4.080      1.21    1.20    1.33  serial a
//
// Then come the counters that the family leads with, the first ones first, as many as the screen
// has room for, and with their intervals if it has more. A reason that does not fit beside its row
// is a note below the table, once for all rows with the same one.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "fixtures/row.h"
#include "report/counters.h"
#include "report/screen.h"
#include "report/value.h"

namespace overlapbench {

struct RowTableOptions {
  Screen screen = {};
  TimeUnit unit = {};
  std::vector<std::string> planned = {};  // names of the rows to come
  long repetitions = 1;                   // of each row
  std::string serial_advice = {};         // what to do about rows that are serialized
};

class RowTable {
 public:
  // `counters` must outlive this.
  RowTable(const CounterTable& counters, RowTableOptions options);

  // The line of a row, below its block's heading where that begins. `repetition`: from 1.
  std::string LinesOf(const Row& row, long repetition);
  // What is below the table: what its columns mean, its notes, and what to do.
  [[nodiscard]] std::string End(const std::vector<Row>& rows) const;
  // "AllGather+Gemm bytes:64 MiB": what distinguishes a row in its block; else its name.
  [[nodiscard]] std::string LabelOf(const std::string& name) const;

 private:
  // A column of what distinguishes rows.
  struct Key {
    std::string title;
    std::size_t width = 0;
    bool is_word = false;  // aligned left
  };
  struct Block {
    std::string heading;
    std::vector<Key> keys;
    std::vector<std::vector<std::string>> cells;  // for each row
    bool fits = true;
  };
  struct Place {
    std::size_t block = 0;
    std::size_t row = 0;  // in the block
  };
  struct Column {
    const Counter* counter = nullptr;
    std::string title;
    std::size_t width = 0;  // of the number and title
    std::size_t reach = 0;  // of the interval; 0: not shown
    bool operator==(const Column&) const = default;
  };
  struct Note {
    std::string kind;  // its text without figures
    std::string text;
  };

  void Plan(const std::vector<std::string>& names);
  static void AddKey(Block& block, Key key, const std::function<std::string(std::size_t)>& cell);
  [[nodiscard]] Block MakeBlock(const std::vector<std::string>& names) const;
  const Place& PlaceOf(const std::string& name);
  [[nodiscard]] std::vector<const Counter*> LeadOf(const std::string& name) const;
  [[nodiscard]] Column PlainColumn(const Counter& counter) const;
  [[nodiscard]] std::size_t RoomForFigures(const Block& block) const;
  // The columns for the counters that the block's rows have had so far.
  [[nodiscard]] std::vector<Column> ChooseColumns(const std::string& name,
                                                  const Block& block) const;
  std::string TitlesIfChanged(const Row& row, const Block& block);
  [[nodiscard]] std::string Keys(const Block& block, std::size_t row, long repetition) const;
  [[nodiscard]] std::vector<std::string> Figures(const Row& row, std::size_t begin);
  std::string MarkOf(const Row& row, std::size_t taken);

  const CounterTable& counters_;
  RowTableOptions options_;
  std::size_t columns_;     // of the table
  std::size_t line_width_;  // of a line, which a pipe does not limit
  std::vector<Block> blocks_;
  std::map<std::string, Place, std::less<>> places_;
  std::size_t open_block_ = static_cast<std::size_t>(-1);  // whose heading was last written
  std::map<std::string, bool> seen_;  // the open block's counters: whether they have intervals
  std::vector<Column> shown_;         // the open block's columns
  std::vector<Note> notes_;
  bool has_unknown_ = false;  // "?" was shown
};

}  // namespace overlapbench
