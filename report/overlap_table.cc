#include "report/overlap_table.h"

#include <algorithm>
#include <array>
#include <cstdio>

namespace overlapbench {
namespace {

constexpr int kWidth = 100;

template <class... Values>
std::string Format(const char* format, Values... values) {
  std::array<char, 512> text{};
  std::snprintf(text.data(), text.size(), format, values...);
  return text.data();
}

const char* Mark(const Row& row) {
  if (!row.valid()) return "  invalid";
  return row.label.starts_with("serialized") ? "  serial" : "";
}

// C, M, T, slowdown, efficiency, or why they are missing.
std::string Cells(const Row& row) {
  if (!row.error.empty()) return "  error: see above";
  return Format("%10.3f %10.3f %10.3f %9.2f %10.2f%s", row.Counter("comp_ms"),
                row.Counter("comm_ms"), row.Counter("overlap_ms"), row.Counter("slowdown"),
                row.Counter("efficiency"), Mark(row));
}

std::string Header(int label_width, const char* label) {
  return Format("%-*s %10s %10s %10s %9s %10s\n", label_width, label, "C ms", "M ms", "T ms",
                "slowdown", "efficiency");
}

struct Curve {
  std::string title;
  std::vector<const Row*> rows;
};

std::vector<Curve> CurvesOverGrid(const std::vector<Row>& rows) {
  std::vector<Curve> curves;
  for (const auto& row : rows) {
    if (!row.name.starts_with("Overlap/") || AxisValue(row.name, "grid").empty()) continue;
    const auto [scenario, axes] = Split(row.name);
    const std::string title = scenario + "  " + ReadableAxes(WithoutAxis(axes, "grid"));
    auto curve = std::ranges::find(curves, title, &Curve::title);
    if (curve == curves.end()) curve = curves.insert(curves.end(), {title, {}});
    curve->rows.push_back(&row);
  }
  return curves;
}

std::string GridTable(const Curve& curve) {
  constexpr int kGridWidth = 12;
  std::string text = "\n" + curve.title.substr(0, kWidth) + "\n" + Header(kGridWidth, "grid");
  for (const Row* row : curve.rows) {
    text += Format("%-*s ", kGridWidth, AxisValue(row->name, "grid").c_str()) + Cells(*row) + "\n";
  }
  return text;
}

// A pair's settings stand on a line of their own where they do not fit beside the numbers.
std::string PairTable(const std::vector<const Row*>& rows) {
  constexpr int kLabelWidth = 36;
  std::string text = "\nOverlap pairs\n" + Header(kLabelWidth, "pair");
  std::string last_scenario;
  for (const Row* row : rows) {
    const auto [scenario, axes] = Split(row->name);
    if (scenario != last_scenario) text += scenario.substr(scenario.find('/') + 1) + "\n";
    last_scenario = scenario;
    const std::string label = "  " + ReadableAxes(axes);
    if (label.size() > kLabelWidth)
      text += label.substr(0, kWidth) + "\n" + std::string(kLabelWidth, ' ');
    else
      text += Format("%-*s", kLabelWidth, label.c_str());
    text += " " + Cells(*row) + "\n";
  }
  return text;
}

}  // namespace

std::string OverlapTables(const std::vector<Row>& rows) {
  std::string text;
  std::vector<const Row*> pairs;
  for (const auto& curve : CurvesOverGrid(rows)) {
    if (curve.rows.size() > 1)
      text += GridTable(curve);
    else
      pairs.push_back(curve.rows.front());
  }
  for (const auto& row : rows) {
    if (row.name.starts_with("Overlap/") && AxisValue(row.name, "grid").empty())
      pairs.push_back(&row);
  }
  std::ranges::stable_sort(pairs, {}, [](const Row* row) { return Split(row->name).scenario; });
  if (!pairs.empty()) text += PairTable(pairs);
  if (!text.empty()) {
    text +=
        "\nC computation alone, M communication alone, T both at once; slowdown = T / max(C, M): "
        "1.00 is\n"
        "perfect overlap; efficiency = (C + M - T) / min(C, M): 1 perfect, 0 one after the other. "
        "serial:\n"
        "both could run, but one waited for the other; invalid: not a measurement, the row says "
        "why.\n";
  }
  return text;
}

}  // namespace overlapbench
