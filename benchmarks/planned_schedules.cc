#include "benchmarks/planned_schedules.h"

#include <fmt/core.h>

#include <iostream>
#include <memory>
#include <string>

#include "benchmarks/catalog.h"
#include "benchmarks/prologue.h"
#include "report/json.h"
#include "report/schedule_json.h"

namespace overlapbench {

void PrintSchedules(const Options& options) {
  if (options.plan_hosts > options.plan_ranks) {
    throw UsageError(
        fmt::format("--plan_nodes: {} nodes need as many ranks, and --plan_ranks is {}",
                    options.plan_hosts, options.plan_ranks));
  }
  Progress progress(0, options.plan_ranks);
  Ranks ranks({.rank = 0, .size = options.plan_ranks}, progress, options.plan_hosts);
  const auto device = ChoosesCuda(options) ? OpenCudaDevice(0) : OpenHostDevice(1);
  Machine machine{*device, ranks};
  Registry registry;
  FillRegistry(registry, machine);
  const Plan plan = MakePlan({registry, *device, machine}, options.axes, options.pairs);
  const Selection selection = Select(plan, options.filter);
  RequireSomething(plan, selection, options.filter);
  std::cerr << ShownUnavailable(selection, FindScreen(options.columns, options.colour));
  std::cout << "{\"planned\": [";
  const char* between = "\n";
  for (const Benchmark& benchmark : selection.benchmarks) {
    JsonObject row;
    row.Text("name", benchmark.name);
    row.Add("schedules", ScheduleJson(RecordOf(machine, benchmark)));
    std::cout << std::exchange(between, ",\n") << row.Line();
  }
  std::cout << "\n]}\n";
}

}  // namespace overlapbench
