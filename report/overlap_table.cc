#include "report/overlap_table.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "report/row_name.h"

namespace overlapbench {
namespace {

struct Line {
  std::string label;
  std::vector<std::string> cells;
  std::string mark;
  Colour colour = Colour::kYellow;  // of the mark
};

// Lines of numbers with a label each, below a title for each column. Empty cells: a line of text.
class Table {
 public:
  Table(const Screen& screen, std::string label_title, std::vector<std::string> titles)
      : screen_(screen), label_title_(std::move(label_title)), titles_(std::move(titles)) {}
  void Add(Line line) { lines_.push_back(std::move(line)); }

  [[nodiscard]] std::string Text() const {
    const std::vector<std::size_t> widths = Widths();
    std::size_t taken = 0;  // beside the labels
    for (const std::size_t width : widths) taken += width;
    std::size_t label = WidthOf(label_title_);
    std::size_t mark = 0;
    for (const Line& line : lines_) {
      if (!line.cells.empty()) label = std::max(label, WidthOf(line.label));
      if (!line.mark.empty()) mark = std::max(mark, WidthOf(line.mark) + kGap);
    }
    const std::size_t all = screen_.columns;
    label =
        std::clamp(label, kLeastLabel, std::max(all - std::min(all, taken + mark), kLeastLabel));
    std::string text =
        Painted(screen_, Colour::kCyan, LineText({label_title_, titles_, ""}, widths, label)) +
        "\n";
    for (const Line& line : lines_) text += LineText(line, widths, label) + "\n";
    return text;
  }

 private:
  static constexpr std::size_t kGap = 2;
  static constexpr std::size_t kLeastLabel = 11;

  [[nodiscard]] std::vector<std::size_t> Widths() const {
    std::vector<std::size_t> widths;
    for (const std::string& title : titles_) widths.push_back(WidthOf(title) + kGap);
    for (const Line& line : lines_) {
      for (std::size_t i = 0; i < std::min(widths.size(), line.cells.size()); ++i)
        widths[i] = std::max(widths[i], WidthOf(line.cells[i]) + kGap);
    }
    return widths;
  }

  // A label that does not fit beside the numbers stands above them.
  [[nodiscard]] std::string LineText(const Line& line, const std::vector<std::size_t>& widths,
                                     std::size_t label_width) const {
    constexpr std::size_t kIndent = 4;
    const bool above = line.cells.empty() || WidthOf(line.label) > label_width;
    std::string text;
    if (above) text = Wrapped(line.label, screen_.columns, kIndent);
    if (line.cells.empty()) return text;
    if (above) text += "\n";
    std::vector<std::string> pieces = {LeftAligned(above ? "" : line.label, label_width)};
    for (std::size_t i = 0; i < line.cells.size(); ++i)
      pieces.push_back(RightAligned(line.cells[i], widths[i]));
    if (!line.mark.empty())
      pieces.push_back(std::string(kGap, ' ') + Painted(screen_, line.colour, line.mark));
    return text + Filled(pieces, screen_.columns, label_width);
  }

  const Screen& screen_;
  std::string label_title_;
  std::vector<std::string> titles_;
  std::vector<Line> lines_;
};

std::string MarkOf(RowState state) {
  if (state == RowState::kOk) return "";
  return state == RowState::kSerialized ? "serial" : ToString(state);
}

class Tables {
 public:
  Tables(const Screen& screen, const TimeUnit& unit) : screen_(screen), unit_(unit) {}

  [[nodiscard]] Table Empty(const std::string& label) const {
    return {screen_,
            label,
            {"C " + unit_.name, "M " + unit_.name, "T " + unit_.name, "slowdown", "efficiency"}};
  }
  // C, M, T, slowdown, efficiency, or that they are missing.
  [[nodiscard]] Line LineOf(const Row& row, const std::string& label) const {
    if (!row.measured()) return {label, {"error:", "see", "above"}, ""};
    Line line{label, {}, MarkOf(row.state)};
    if (row.state == RowState::kInvalid) line.colour = Colour::kRed;
    for (const char* time : {"comp_ms", "comm_ms", "overlap_ms"})
      line.cells.push_back(ShownNumber(row, time, Decimals(), unit_.of_ms(1)));
    for (const char* ratio : {"slowdown", "efficiency"})
      line.cells.push_back(ShownNumber(row, ratio, 2));
    return line;
  }

 private:
  // Enough to show a microsecond in any unit.
  [[nodiscard]] int Decimals() const {
    constexpr int kOfSeconds = 6;
    constexpr int kOfMilliseconds = 3;
    if (unit_.name == "s") return kOfSeconds;
    return unit_.name == "ms" ? kOfMilliseconds : 0;
  }

  const Screen& screen_;
  const TimeUnit& unit_;
};

// Tells repetitions of a row apart.
std::string Numbered(const std::string& label, const Row* before, const Row& row, int& repetition) {
  repetition = before != nullptr && before->name == row.name ? repetition + 1 : 1;
  return repetition == 1 ? label : fmt::format("{} #{}", label, repetition);
}

struct Curve {
  std::string title;
  std::vector<const Row*> rows;
};

std::vector<Curve> CurvesOverGrid(const std::vector<Row>& rows) {
  std::vector<Curve> curves;
  for (const auto& row : rows) {
    if (!row.name.starts_with("Overlap/") || !row.settings.Has("grid")) continue;
    const auto [scenario, axes] = Split(row.name);
    const std::string title = scenario + "  " + ReadableAxes(WithoutAxis(axes, "grid"));
    auto curve = std::ranges::find(curves, title, &Curve::title);
    if (curve == curves.end()) curve = curves.insert(curves.end(), {title, {}});
    curve->rows.push_back(&row);
  }
  return curves;
}

std::string GridTable(const Curve& curve, const Screen& screen, const Tables& tables) {
  Table table = tables.Empty("grid");
  const Row* before = nullptr;
  int repetition{};
  for (const Row* row : curve.rows) {
    const std::string& grid = row->settings.Text("grid");
    table.Add(tables.LineOf(*row, Numbered(grid, before, *row, repetition)));
    before = row;
  }
  return "\n" + Wrapped(curve.title, screen.columns, 4) + "\n" + table.Text();
}

std::string PairTable(const std::vector<const Row*>& rows, const Tables& tables) {
  Table table = tables.Empty("pair");
  const Row* before = nullptr;
  int repetition{};
  for (const Row* row : rows) {
    const auto [scenario, axes] = Split(row->name);
    if (before == nullptr || Split(before->name).scenario != scenario)
      table.Add({scenario.substr(scenario.find('/') + 1), {}, ""});
    const std::string label = "  " + ReadableAxes(axes);
    table.Add(tables.LineOf(*row, Numbered(label, before, *row, repetition)));
    before = row;
  }
  return "\nOverlap pairs\n" + table.Text();
}

constexpr const char* kLegend =
    "C computation alone, M communication alone, T both at once; slowdown = T / max(C, M): 1.00 is "
    "perfect overlap; efficiency = (C + M - T) / min(C, M): 1 perfect, 0 one after the other. "
    "serial: both could run, but one waited for the other; noisy: too uncertain; invalid: not a "
    "measurement. Each row says why.";

}  // namespace

std::string OverlapTables(const std::vector<Row>& rows, const Screen& screen,
                          const TimeUnit& unit) {
  const Tables tables(screen, unit);
  std::string text;
  std::vector<const Row*> pairs;
  for (const auto& curve : CurvesOverGrid(rows)) {
    const bool one = std::ranges::all_of(
        curve.rows, [&](const Row* row) { return row->name == curve.rows.front()->name; });
    if (one)
      pairs.insert(pairs.end(), curve.rows.begin(), curve.rows.end());
    else
      text += GridTable(curve, screen, tables);
  }
  for (const auto& row : rows) {
    if (row.name.starts_with("Overlap/") && !row.settings.Has("grid")) pairs.push_back(&row);
  }
  std::ranges::stable_sort(pairs, {}, [](const Row* row) { return Split(row->name).scenario; });
  if (!pairs.empty()) text += PairTable(pairs, tables);
  if (!text.empty()) text += "\n" + Wrapped(kLegend, screen.columns, 0) + "\n";
  return text;
}

}  // namespace overlapbench
