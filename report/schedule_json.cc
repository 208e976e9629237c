#include "report/schedule_json.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include "report/json.h"

namespace overlapbench {
namespace {

template <class Items, class Write>
std::string List(const Items& items, const Write& write) {
  std::vector<std::string> texts;
  for (const auto& item : items) texts.push_back(write(item));
  return fmt::format("[{}]", fmt::join(texts, ", "));
}

std::string Numbers(const std::vector<std::size_t>& numbers) {
  return fmt::format("[{}]", fmt::join(numbers, ", "));
}

std::string OfWork(const ScheduleRecord::Work& work) {
  JsonObject members;
  members.Text("name", work.name).Text("class", ToString(work.work_class));
  if (!work.collective.empty()) members.Text("collective", work.collective);
  if (!work.transport.empty()) members.Text("transport", work.transport);
  const auto amount = [&](const char* name, double value) {
    if (value > 0) members.Add(name, fmt::format("{:.10g}", value));
  };
  amount("flops", work.cost.flops);
  amount("moved_bytes", work.cost.moved_bytes + work.cost.copied_bytes);
  amount("host_bytes", work.cost.host_bytes);
  amount("wire_bytes", work.cost.wire_bytes);
  amount("bus_factor", work.cost.bus_factor);
  if (work.sms) members.Count("sms", *work.sms);
  return members.Line();
}

std::string OfLane(const Schedule::Lane& lane) {
  JsonObject members;
  members.Text("name", lane.name);
  if (lane.priority > 0) members.Count("priority", lane.priority);
  if (lane.sms > 0) members.Count("sms", lane.sms);
  if (lane.on_host) members.Add("on_host", "true");
  if (lane.rank) members.Count("rank", *lane.rank);
  return members.Line();
}

// [work, lane, part, parts, the steps it waits for] and, if it has more, an object.
std::string OfStep(const ScheduleRecord::Step& step) {
  const StepOptions& options = step.options;
  JsonObject more;
  if (!options.host_after.empty()) more.Add("host_after", Numbers(options.host_after));
  if (options.other_end) more.Count("other_end", *options.other_end);
  if (!options.engine.empty()) more.Text("engine", options.engine);
  const std::string rest = more.Line();
  return fmt::format("[{}, {}, {}, {}, {}{}]", step.work, step.lane, options.part.index,
                     options.part.count, Numbers(options.after), rest == "{}" ? "" : ", " + rest);
}

std::string OfRun(const ScheduleRecord::Run& run) {
  JsonObject members;
  members.Text("name", run.name);
  if (!run.is_gated) members.Add("gated", "false");
  if (run.time_ms) {
    members.Number("ms", *run.time_ms);
    if (const auto& ends = run.time_ms->interval)
      members.Number("ms_low", ends->low).Number("ms_high", ends->high);
    members.Number("enqueue_ms", run.enqueue_ms);
  }
  members.Add("lanes", List(run.lanes, OfLane));
  if (!run.lanes_ms.empty()) {
    members.Add("lanes_ms", List(run.lanes_ms, [](const TimeSpan& span) {
                  return fmt::format("[{:.6g}, {:.6g}]", span.begin_ms, span.end_ms);
                }));
  }
  members.Add("steps", List(run.steps, OfStep));
  return members.Line();
}

}  // namespace

std::string ScheduleJson(const ScheduleRecord& record) {
  JsonObject members;
  members.Count("version", kScheduleVersion)
      .Count("ranks", record.ranks)
      .Count("hosts", record.hosts)
      .Text("transport", record.transport)
      .Add("works", List(record.works, OfWork))
      .Add("runs", List(record.runs, OfRun));
  return members.Line();
}

}  // namespace overlapbench
