#include "report/row_table.h"

#include <fmt/core.h>

#include <algorithm>
#include <limits>
#include <set>
#include <utility>

#include "report/row_name.h"
#include "workload/size.h"

namespace overlapbench {
namespace {

constexpr std::size_t kGap = 2;
constexpr std::size_t kIndent = 4;
constexpr std::size_t kMark = 11;     // "  invalid a"
constexpr std::size_t kReach = 7;     // " ±0.055"
constexpr std::size_t kFigures = 32;  // T, slowdown, comp × and comm ×
constexpr std::size_t kShare = 3;     // or this part of a narrow screen
constexpr std::size_t kMostKeys = 3;  // of axes
constexpr std::size_t kInPipe = 120;
constexpr const char* kStanding = "-";  // the value that names leave out
constexpr const char* kTime = "time";
constexpr const char* kSlowestRank = "slowest_rank";

constexpr const char* kPairLegend =
    "C computation alone, M communication alone, T both at once. slowdown: T / max(C, M), 1.00 is "
    "perfect overlap. comp ×, comm ×: what the sides cost each other, each one's own time beside "
    "the other / alone.";

// "known to ±… % only": a reason without its figures.
std::string WithoutFigures(std::string_view text) {
  std::string kind;
  char before = ' ';
  while (!text.empty()) {
    std::size_t end = 1;
    if (IsDigit(text.front()) && !IsOfAWord(before)) {
      end = std::min(text.find_first_not_of("0123456789.,e"), text.size());
      while (!IsDigit(text[end - 1])) --end;
      kind += "…";
    } else {
      kind += text.front();
    }
    before = text[end - 1];
    text.remove_prefix(end);
  }
  return kind;
}

std::string WordOf(RowState state) {
  if (state == RowState::kOk) return "";
  return state == RowState::kSerialized ? "serial" : ToString(state);
}

Colour ColourOf(RowState state) {
  if (state == RowState::kControl) return Colour::kGreen;
  return state == RowState::kInvalid ? Colour::kRed : Colour::kYellow;
}

// "a" to "z", then "aa".
std::string Letters(std::size_t note) {
  constexpr std::size_t kAlphabet = 26;
  const std::string last(1, static_cast<char>('a' + note % kAlphabet));
  return note < kAlphabet ? last : Letters(note / kAlphabet - 1) + last;
}

// How many leading parts of their paths all scenarios have.
std::string CommonPath(const std::vector<std::string>& scenarios) {
  std::string common = scenarios.front() + "/";
  for (const std::string& scenario : scenarios) {
    while (!(scenario + "/").starts_with(common))
      common.resize(common.rfind('/', common.size() - 2) + 1);
  }
  return common;
}

// The parts of the names of some rows.
struct NameParts {
  explicit NameParts(const std::vector<std::string>& names) {
    for (const std::string& name : names) {
      const SplitName split = Split(name);
      scenarios.push_back(split.scenario);
      values.emplace_back();
      for (const auto& [axis, value] : ReadableAxes(split.axes)) {
        values.back().emplace(axis, value);
        if (std::ranges::find(axes, axis) == axes.end()) axes.push_back(axis);
      }
    }
  }
  [[nodiscard]] bool has_one_scenario() const {
    return std::ranges::all_of(scenarios,
                               [&](const auto& one) { return one == scenarios.front(); });
  }
  [[nodiscard]] bool AllHave(const std::string& axis) const {
    return std::ranges::all_of(values, [&](const auto& row) { return row.contains(axis); });
  }
  [[nodiscard]] std::string Value(std::size_t row, const std::string& axis) const {
    const auto found = values[row].find(axis);
    return found == values[row].end() ? kStanding : found->second;
  }
  [[nodiscard]] std::string FirstOf(const std::string& axis) const {
    return std::ranges::find_if(values, [&](const auto& row) { return row.contains(axis); })
        ->at(axis);
  }
  // Whether two rows have other values of it, or two of one scenario differ in whether they have
  // it.
  [[nodiscard]] bool TellApart(const std::string& axis) const {
    std::map<std::string, std::set<std::string>> of_scenarios;
    for (std::size_t row = 0; row < values.size(); ++row) {
      if (values[row].contains(axis) && Value(row, axis) != FirstOf(axis)) return true;
      of_scenarios[scenarios[row]].insert(Value(row, axis));
    }
    return std::ranges::any_of(of_scenarios,
                               [](const auto& scenario) { return scenario.second.size() > 1; });
  }

  std::vector<std::string> scenarios;
  std::vector<std::map<std::string, std::string>> values;  // of each row's axes
  std::vector<std::string> axes;                           // of any row
};

std::string Counted(std::size_t rows, std::size_t all, const std::string& what) {
  return fmt::format("{} of {} row{} {} {}", rows, all, all == 1 ? "" : "s",
                     rows == 1 ? "is" : "are", what);
}

}  // namespace

RowTable::RowTable(const CounterTable& counters, RowTableOptions options)
    : counters_(counters),
      options_(std::move(options)),
      columns_(options_.screen.is_terminal ? options_.screen.columns : kInPipe),
      line_width_(options_.screen.is_terminal ? columns_
                                              : std::numeric_limits<std::size_t>::max()) {
  Plan(options_.planned);
}

// As many rows as fit, whole scenarios if possible.
void RowTable::Plan(const std::vector<std::string>& names) {
  const auto scenario = [&](std::size_t row) { return Split(names[row]).scenario; };
  const auto after_scenario = [&](std::size_t row) {
    std::size_t end = row + 1;
    while (end < names.size() && scenario(end) == scenario(row)) ++end;
    return end;
  };
  const auto block_of = [&](std::size_t begin, std::size_t end) {
    return MakeBlock({names.begin() + static_cast<std::ptrdiff_t>(begin),
                      names.begin() + static_cast<std::ptrdiff_t>(end)});
  };
  for (std::size_t begin = 0; begin < names.size();) {
    std::size_t end = after_scenario(begin);
    Block block = block_of(begin, end);
    if (block.fits) {
      while (end < names.size()) {
        Block longer = block_of(begin, after_scenario(end));
        if (!longer.fits) break;
        end = after_scenario(end);
        block = std::move(longer);
      }
    } else {
      // More rows never take less width, so the first that is too far is found by halving.
      std::size_t most = begin + 1;
      for (std::size_t too_far = end; too_far > most + 1;) {
        const std::size_t middle = most + (too_far - most) / 2;
        (block_of(begin, middle).fits ? most : too_far) = middle;
      }
      end = most;
      block = block_of(begin, end);
    }
    for (std::size_t row = begin; row < end; ++row)
      places_.insert_or_assign(names[row], Place{blocks_.size(), row - begin});
    blocks_.push_back(std::move(block));
    begin = end;
  }
}

void RowTable::AddKey(Block& block, Key key, const std::function<std::string(std::size_t)>& cell) {
  key.width = WidthOf(key.title);
  for (std::size_t row = 0; row < block.cells.size(); ++row) {
    block.cells[row].push_back(cell(row));
    key.width = std::max(key.width, WidthOf(block.cells[row].back()));
  }
  block.keys.push_back(std::move(key));
}

RowTable::Block RowTable::MakeBlock(const std::vector<std::string>& names) const {
  const NameParts parts(names);
  const std::vector<std::string>& scenarios = parts.scenarios;
  Block block;
  block.cells.resize(names.size());
  const std::string common = CommonPath(scenarios);
  if (!parts.has_one_scenario()) {
    const bool pairs = std::ranges::all_of(
        scenarios, [](const auto& one) { return one.find('+') != std::string::npos; });
    AddKey(block, {pairs ? "pair" : "", 0, true}, [&](std::size_t row) {
      return scenarios[row].substr(std::min(common.size(), scenarios[row].size()));
    });
  }
  std::vector<std::string> heading = SplitBehind(common, '/');
  if (!heading.empty()) {
    heading.back().pop_back();
    heading.back() += "  ";
  }
  std::size_t axis_keys = 0;
  for (const std::string& axis : parts.axes) {
    if (!parts.TellApart(axis)) {
      heading.push_back(axis + ":" + parts.FirstOf(axis) + " ");
      continue;
    }
    ++axis_keys;
    AddKey(block, {axis, 0, false}, [&](std::size_t row) { return parts.Value(row, axis); });
    block.fits = block.fits && (parts.has_one_scenario() || parts.AllHave(axis));
  }
  if (options_.repetitions > 1)
    block.keys.push_back({"#", std::to_string(options_.repetitions).size(), false});
  block.heading = Filled(heading, line_width_, kIndent);
  // One family, and at most so many axes, beside which the first figures have room.
  block.fits = block.fits && !common.empty() && axis_keys <= kMostKeys &&
               RoomForFigures(block) >= std::min(kFigures, columns_ / kShare) &&
               std::ranges::all_of(names, [&](const std::string& name) {
                 return counters_.FamilyOf(name) == counters_.FamilyOf(names.front());
               });
  return block;
}

// A row that was not planned has a block of its own.
const RowTable::Place& RowTable::PlaceOf(const std::string& name) {
  if (!places_.contains(name)) Plan({name});
  return places_.find(name)->second;
}

// Its family's lead, with the row's time if it has none. Counters that no row has are left out
// later.
std::vector<const Counter*> RowTable::LeadOf(const std::string& name) const {
  const FamilyText* family = counters_.FamilyOf(name);
  std::vector<std::string> names = family == nullptr ? std::vector<std::string>() : family->lead;
  const bool has_time = std::ranges::any_of(
      names, [](const auto& one) { return one == kTime || one == "overlap_ms"; });
  if (!has_time) names.insert(names.begin(), kTime);
  names.emplace_back(kSlowestRank);
  std::vector<const Counter*> lead;
  for (const std::string& one : names) {
    if (const Counter* counter = counters_.Find(one)) lead.push_back(counter);
  }
  return lead;
}

RowTable::Column RowTable::PlainColumn(const Counter& counter) const {
  constexpr std::size_t kRatio = 5;
  constexpr std::size_t kNumber = 6;
  const std::string unit = ShownUnit(counter, options_.unit);
  const std::string title = counter.title + (unit.empty() ? "" : " " + unit);
  return {&counter, title, std::max(WidthOf(title), unit.empty() ? kRatio : kNumber), 0};
}

std::size_t RowTable::RoomForFigures(const Block& block) const {
  std::size_t taken = kMark;
  for (const Key& key : block.keys) taken += key.width + kGap;
  return columns_ - std::min(columns_, taken);
}

std::vector<RowTable::Column> RowTable::ChooseColumns(const std::string& name,
                                                      const Block& block) const {
  std::size_t room = options_.screen.is_terminal ? RoomForFigures(block) + kGap
                                                 : std::numeric_limits<std::size_t>::max();
  std::vector<Column> columns;
  for (const Counter* counter : LeadOf(name)) {
    if (!seen_.contains(counter->name)) continue;
    const Column column = PlainColumn(*counter);
    if (!columns.empty() && column.width + kGap > room) break;
    room -= std::min(room, column.width + kGap);
    columns.push_back(column);
  }
  for (Column& column : columns) {
    if (!seen_.at(column.counter->name) || room < kReach) continue;
    column.reach = kReach;
    room -= kReach;
  }
  return columns;
}

std::string RowTable::TitlesIfChanged(const Row& row, const Block& block) {
  for (const Counter* counter : LeadOf(row.name)) {
    const auto figure = row.counters.find(counter->name);
    const bool is_time = counter->name == kTime;
    if (!row.measured() || (!is_time && figure == row.counters.end())) continue;
    const bool has_interval =
        (is_time ? row.time_ms.interval : figure->second.interval).has_value();
    seen_[counter->name] |= has_interval;
  }
  const std::vector<Column> columns = ChooseColumns(row.name, block);
  if (columns == shown_ && !columns.empty()) return "";
  if (!row.measured() && !shown_.empty()) return "";
  shown_ = columns;
  std::string titles;
  for (const Key& key : block.keys) {
    const auto aligned = key.is_word ? LeftAligned : RightAligned;
    titles += aligned(key.title, key.width) + std::string(kGap, ' ');
  }
  for (const Column& column : columns)
    titles += RightAligned(column.title, column.width) + std::string(column.reach + kGap, ' ');
  titles.erase(titles.find_last_not_of(' ') + 1);
  return titles.empty() ? "" : Painted(options_.screen, Colour::kCyan, titles) + "\n";
}

std::string RowTable::Keys(const Block& block, std::size_t row, long repetition) const {
  std::string text;
  for (std::size_t i = 0; i < block.keys.size(); ++i) {
    const Key& key = block.keys[i];
    const bool is_repetition = i == block.cells[row].size();
    const std::string cell = is_repetition ? std::to_string(repetition) : block.cells[row][i];
    text += (key.is_word ? LeftAligned : RightAligned)(cell, key.width) + std::string(kGap, ' ');
  }
  return text;
}

// Each ends where its column does. One that is too wide takes the room of those behind it.
std::vector<std::string> RowTable::Figures(const Row& row, std::size_t begin) {
  std::vector<std::string> figures;
  std::size_t end = begin;  // of the column
  std::size_t taken = begin;
  for (const Column& column : shown_) {
    const ShownFigure figure = Shown(row, *column.counter, options_.unit);
    has_unknown_ = has_unknown_ || figure.number == "?";
    end += column.width;
    const std::string blank(figures.empty() || taken < end ? "" : " ");
    std::string text = RightAligned(blank + figure.number, end - std::min(end, taken));
    end += column.reach + kGap;
    if (column.reach > 0 && !figure.reach.empty()) text += " " + figure.reach;
    taken += WidthOf(text);
    text.append(kGap < end && taken + kGap <= end ? end - kGap - taken : 0, ' ');
    taken = std::max(taken, end - kGap);
    figures.push_back(text);
  }
  return figures;
}

// "serial: communication waited" if there is room, else "serial a".
std::string RowTable::MarkOf(const Row& row, std::size_t taken) {
  const Screen& screen = options_.screen;
  const std::string word = WordOf(row.state);
  std::string painted = Painted(screen, ColourOf(row.state), word);
  if (row.reason.empty()) return painted;
  const std::string colon = word.empty() ? "" : ": ";
  if (!screen.is_terminal || taken + WidthOf(word + colon + row.reason) <= columns_)
    return painted + colon + row.reason;
  const std::string kind = WithoutFigures(row.reason);
  auto note = std::ranges::find(notes_, kind, &Note::kind);
  if (note == notes_.end()) note = notes_.insert(notes_.end(), {kind, row.reason});
  if (note->text != row.reason) note->text = kind;
  const auto number = static_cast<std::size_t>(note - notes_.begin());
  return painted + (word.empty() ? "" : " ") + Letters(number);
}

std::string RowTable::LinesOf(const Row& row, long repetition) {
  const Screen& screen = options_.screen;
  const Place place = PlaceOf(row.name);
  const Block& block = blocks_[place.block];
  std::string text;
  if (open_block_ != place.block) {
    open_block_ = place.block;
    seen_.clear();
    shown_.clear();
    text = "\n" + Painted(screen, Colour::kGreen, block.heading) + "\n";
  }
  text += TitlesIfChanged(row, block);
  const std::string keys = Keys(block, place.row, repetition);
  if (!row.measured()) {
    const std::string line = Painted(screen, Colour::kRed, "ERROR") + ": " + row.reason;
    std::vector<std::string> pieces = SplitBehind(line, ' ');
    pieces.insert(pieces.begin(), keys);
    return text + Filled(pieces, line_width_, kIndent) + "\n";
  }
  std::vector<std::string> pieces = Figures(row, WidthOf(keys));
  pieces.insert(pieces.begin(), keys);
  std::size_t taken = kGap;
  for (const std::string& piece : pieces) taken += WidthOf(piece);
  if (const std::string mark = MarkOf(row, taken); !mark.empty())
    pieces.push_back(std::string(kGap, ' ') + mark);
  return text + Filled(pieces, line_width_, kIndent) + "\n";
}

std::string RowTable::LabelOf(const std::string& name) const {
  const auto place = places_.find(name);
  if (place == places_.end()) return name;
  const Block& block = blocks_[place->second.block];
  std::string label;
  for (std::size_t i = 0; i < block.cells[place->second.row].size(); ++i) {
    const std::string& cell = block.cells[place->second.row][i];
    if (cell.empty() || cell == kStanding) continue;
    label += (label.empty() ? "" : " ") + (block.keys[i].is_word ? "" : block.keys[i].title + ":") +
             cell;
  }
  return label.empty() ? name : label;
}

std::string RowTable::End(const std::vector<Row>& rows) const {
  std::string text;
  const auto say = [&](const std::string& what, std::size_t indent = 0) {
    text += Wrapped(what, options_.screen.columns, indent) + "\n";
  };
  const auto has = [](const char* counter) {
    return [counter](const Row& row) { return row.counters.contains(counter); };
  };
  const auto say_count = [&](RowState state, const std::string& what) {
    const auto found = static_cast<std::size_t>(std::ranges::count(rows, state, &Row::state));
    if (found > 0) say(Counted(found, rows.size(), what));
  };
  if (std::ranges::any_of(rows, has("comp_slowdown"))) say(kPairLegend);
  if (has_unknown_) say("?: too uncertain to say anything.");
  for (std::size_t i = 0; i < notes_.size(); ++i)
    say(fmt::format("{}  {}", Letters(i), notes_[i].text), 3);
  say_count(RowState::kSerialized, "serial: both sides could run, but one waited for the other. " +
                                       options_.serial_advice);
  say_count(RowState::kNoisy, "noisy: measure on an idle machine, or raise --budget_ms.");
  return text.empty() ? "" : "\n" + text;
}

}  // namespace overlapbench
