#include "report/result_json.h"

#include <fmt/core.h>

#include <sstream>
#include <string_view>
#include <utility>

#include "device/error.h"
#include "report/json.h"
#include "report/schedule_json.h"

namespace overlapbench {
namespace {

using GoogleRun = benchmark::BenchmarkReporter::Run;

void AddPlace(JsonObject& members, const GoogleRun& run) {
  const bool is_aggregate = run.run_type == GoogleRun::RT_Aggregate;
  const std::string& name = run.run_name.function_name;
  members.Text("name", is_aggregate ? name + "_" + run.aggregate_name : name);
  members.Count("family_index", run.family_index);
  members.Count("per_family_instance_index", run.per_family_instance_index);
  members.Text("run_name", name);
  members.Text("run_type", is_aggregate ? "aggregate" : "iteration");
  members.Count("repetitions", run.repetitions);
  if (!is_aggregate) members.Count("repetition_index", run.repetition_index);
  members.Count("threads", run.threads);
}

// An aggregate such as the coefficient of variation is a share, without a unit of time.
void AddTimes(JsonObject& members, const GoogleRun& run) {
  const bool is_share = run.run_type == GoogleRun::RT_Aggregate &&
                        run.aggregate_unit == benchmark::StatisticUnit::kPercentage;
  members.Count("iterations", run.iterations);
  members.Number("real_time", is_share ? run.real_accumulated_time : run.GetAdjustedRealTime());
  members.Number("cpu_time", is_share ? run.cpu_accumulated_time : run.GetAdjustedCPUTime());
  members.Text("time_unit", benchmark::GetTimeUnitString(run.time_unit));
}

std::string ObjectOf(const GoogleRun& run, const Row& row) {
  JsonObject members;
  AddPlace(members, run);
  if (!row.measured()) {
    members.Add("error_occurred", "true");
    members.Text("error_message", row.reason);
  }
  AddTimes(members, run);
  for (const auto& [name, number] : NumbersOf(row)) members.Number(name, number);
  members.Text("state", ToString(row.state));
  members.Text("reason", row.reason);
  if (row.schedules != nullptr) members.Add("schedules", ScheduleJson(*row.schedules));
  return members.Lines(4);
}

std::string ObjectOf(const GoogleRun& aggregate) {
  JsonObject members;
  AddPlace(members, aggregate);
  members.Text("aggregate_name", aggregate.aggregate_name);
  members.Text("aggregate_unit",
               aggregate.aggregate_unit == benchmark::StatisticUnit::kTime ? "time" : "percentage");
  AddTimes(members, aggregate);
  for (const auto& [name, counter] : aggregate.counters) members.Number(name, counter.value);
  return members.Lines(4);
}

}  // namespace

// Google Benchmark's text ends by opening the list of rows.
std::string ResultJson::Begin(const benchmark::BenchmarkReporter::Context& context) {
  constexpr std::string_view kRows = "  \"benchmarks\": [\n";
  std::ostringstream stream;
  benchmark::JSONReporter json;
  json.SetOutputStream(&stream);
  json.ReportContext(context);
  // It copies values of the environment as they are.
  std::string text = ValidUtf8(stream.str());
  for (char& c : text)
    if (c >= '\0' && c < ' ' && c != '\n') c = ' ';
  if (!text.ends_with(kRows)) throw Error("Google Benchmark's JSON does not end with its rows");
  text.resize(text.size() - kRows.size());
  return text + JsonMembers(table_) + std::string(kRows);
}

std::string ResultJson::Runs(const std::vector<GoogleRun>& runs, const std::vector<Row>& rows) {
  for (const Row& row : rows) RequireDefined(row);
  std::string text;
  auto row = rows.begin();
  for (const GoogleRun& run : runs) {
    text += std::exchange(has_rows_, true) ? ",\n" : "";
    text += run.run_type == GoogleRun::RT_Aggregate ? ObjectOf(run) : ObjectOf(run, *row++);
  }
  return text;
}

void ResultJson::RequireDefined(const Row& row) const {
  for (const auto& [name, figure] : row.counters) {
    if (table_.Find(name) != nullptr) continue;
    throw Error(fmt::format("{} reports '{}', which its family does not define", row.name, name));
  }
}

std::string ResultJson::End() { return "\n  ]\n}\n"; }

std::string ResultJson::Incomplete(const std::string& reason) {
  return fmt::format("\n  ],\n  \"incomplete\": \"{}\"\n}}\n", EscapedJson(reason));
}

}  // namespace overlapbench
