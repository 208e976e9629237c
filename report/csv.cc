#include "report/csv.h"

#include <fmt/core.h>

#include <algorithm>
#include <iterator>
#include <map>

#include "report/json.h"

namespace overlapbench {
namespace {

using Numbers = std::map<std::string, double>;

// In the order of the table, followed by those that it lacks, such as the ends of intervals.
std::vector<std::string> Columns(const CounterTable& table, const std::vector<Numbers>& rows) {
  std::vector<std::string> columns;
  const auto add = [&](const std::string& name) {
    if (std::ranges::find(columns, name) == columns.end()) columns.push_back(name);
  };
  const auto any_has = [&](const std::string& name) {
    return std::ranges::any_of(rows, [&](const Numbers& row) { return row.contains(name); });
  };
  for (const Counter& counter : table.counters())
    if (any_has(counter.name)) add(counter.name);
  for (const Numbers& row : rows)
    for (const auto& [name, value] : row) add(name);
  return columns;
}

std::string Quoted(const std::string& text) {
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + "\"";
}

}  // namespace

std::string Csv(const CounterTable& table, const std::vector<Row>& rows, const TimeUnit& unit) {
  std::vector<Numbers> all;
  std::ranges::transform(rows, std::back_inserter(all), NumbersOf);
  const std::vector<std::string> columns = Columns(table, all);
  std::string text = "name,real_time,time_unit,state,reason";
  for (const std::string& column : columns) text += "," + column;
  text += "\n";
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const Row& row = rows[i];
    const std::string time = row.measured() ? fmt::format("{}", unit.of_ms(row.time_ms)) : "";
    text += fmt::format("{},{},{},{},{}", row.name, time, unit.name, ToString(row.state),
                        Quoted(row.reason));
    for (const std::string& column : columns) {
      const auto number = all[i].find(column);
      text += number == all[i].end() ? "," : fmt::format(",{}", number->second);
    }
    text += "\n";
  }
  return ValidUtf8(text);
}

}  // namespace overlapbench
