// Copy/Sequential: copy in, compute, copy out, one after the other. Copy/Pipelined: the same in
// parts, a stream each. While one part is computed, another comes in and a third goes out: two copy
// engines and the SMs at once. With pageable memory every copy makes the host wait, and nothing can
// overlap.
#include <fmt/core.h>

#include <functional>

#include "benchmarks/copy.h"
#include "benchmarks/copy_stages.h"

namespace overlapbench::copy {
namespace {

Run PipelinedRun(const Stages& stages, long parts) {
  Run run{.name = "pipelined"};
  for (long part = 0; part < parts; ++part) {
    const std::size_t lane = run.schedule.AddLane({fmt::format("part {}", part)});
    AddInTurn(run.schedule, lane, stages, {part, parts});
  }
  return run;
}

// Both copies at once, of independent arrays: how much they slow each other down.
Run DuplexRun(const Work& in, const Work& out, long parts) {
  Run run{.name = "duplex", .timed = Timed::kLanes};
  for (const auto& [work, engine] : {std::pair(in, kInEngine), {out, kOutEngine}}) {
    const std::size_t lane = run.schedule.AddLane({engine});
    for (long part = 0; part < parts; ++part) run.schedule.Add(lane, work, {.part = {part, parts}});
  }
  return run;
}

std::string Excluded(const Device& device, const Settings& settings) {
  const long streams = settings.Has("pipeline_streams") ? settings.Integer("pipeline_streams") : 1;
  constexpr long kMostExact = (1L << 24) - 256;  // whole numbers of float32
  if (settings.Integer("elements") % streams != 0)
    return "elements must be a multiple of pipeline_streams";
  if (settings.Integer("intensity") > kMostExact) return "intensity must be at most 2^24 - 256";
  return NoSuchMemory(device, settings);
}

// A scenario over `elements`, memory and intensity; its runs are the caller's.
Scenario OfStages(const Catalog& catalog, const char* name) {
  constexpr long kMostElements = 1L << 32;
  const bool host = catalog.on_host();
  Scenario scenario{.name = name};
  scenario.axes = {IntegerAxis("elements", "float32 values brought in and out", 1, kMostElements,
                               host ? "1048576" : "4194304"),
                   MemoryAxis(), IntensityAxis(1L << 24, host ? "4" : "2048")};
  scenario.excluded = std::bind_front(Excluded, std::cref(catalog.device));
  return scenario;
}

std::vector<Scenario> SequentialScenarios(const Catalog& catalog) {
  Scenario scenario = OfStages(catalog, "Copy/Sequential");
  SetValues(scenario.axes, {{"memory", "pinned,pageable"}});
  scenario.runs = [machine = catalog.machine](const Settings& settings) {
    const Stages stages = StagesOf(machine, ShapeOf(settings, "elements", 1, 1));
    return std::vector{SequentialRun("sequential", stages, 1)};
  };
  return {scenario};
}

std::vector<Run> PipelinedRuns(const Machine& machine, const Settings& settings) {
  const long parts = settings.Integer("pipeline_streams");
  StagedShape shape = ShapeOf(settings, "elements", parts, parts);
  shape.part_elements /= parts;
  const Stages stages = StagesOf(machine, shape);
  // The other direction has its own array, whose memory no `in` counts.
  WorkPlan other_out = *StagesOf(machine, shape).out;
  other_out.footprint = shape.footprint();
  // A stage runs alone as a whole, because kernels of several parts may share the SMs.
  return {SequentialRun("sequential", stages, 1),
          SoloRun(stages.in),
          SoloRun(stages.compute),
          SoloRun(stages.out),
          DuplexRun(stages.in, std::make_shared<const WorkPlan>(std::move(other_out)), parts),
          PipelinedRun(stages, parts)};
}

// The bound if both directions of the bus slow each other down as measured.
double DuplexBound_ms(const Measurement& measurement) {
  const auto slowdown = [&](const char* engine, const char* alone) {
    return (measurement.LaneOwn_ms("duplex", engine) / measurement.Total_ms(alone)).median();
  };
  const Contention contentions[] = {{kInEngine, kOutEngine, slowdown(kInEngine, "in")},
                                    {kOutEngine, kInEngine, slowdown(kOutEngine, "out")}};
  return measurement.ContendedBound_ms(contentions);
}

Remark ReportPipelined(const Measurement& measurement, Counters& counters) {
  constexpr double kPercent = 100;
  const double pipelined_ms = measurement.Total_ms().median();
  const bool identical = ReportStages(measurement, counters);
  const double bound_ms = counters["bound_ms"];
  const double duplex_ms = DuplexBound_ms(measurement);
  counters["duplex_bound_ms"] = duplex_ms;
  if (!identical) return NotIdentical();
  if (measurement.settings().Integer("pipeline_streams") == 1) return {};
  if (measurement.settings().Text("memory") == "pageable")
    return Remark::Finding("no overlap: every copy of pageable memory blocks the host");
  return Remark::Finding(fmt::format(
      "over the bound: {:.1f} % due to copies in both directions at once, {:.1f} % to the rest",
      kPercent * (duplex_ms - bound_ms) / bound_ms,
      kPercent * (pipelined_ms - duplex_ms) / bound_ms));
}

Scenario PipelinedScenario(const Catalog& catalog, const Values& values) {
  Scenario scenario = OfStages(catalog, "Copy/Pipelined");
  scenario.axes.push_back(
      IntegerAxis("pipeline_streams", "streams, and parts of the array", 1, 64, "1,2,4,8,16"));
  SetValues(scenario.axes, values);
  scenario.runs = std::bind_front(PipelinedRuns, catalog.machine);
  scenario.report = ReportPipelined;
  return scenario;
}

std::vector<Scenario> PipelinedScenarios(const Catalog& catalog) {
  std::vector<Values> all = {
      {{"intensity", "16,2048,8192"}},  // from copy-bound to compute-bound
      {{"memory", "pageable"}, {"pipeline_streams", "1,4"}},
      // where fixed costs no longer matter
      {{"elements", "67108864"}, {"intensity", "2048"}, {"pipeline_streams", "1,4"}}};
  if (catalog.on_host()) {
    all.front() = {{"intensity", "1,4,16"}, {"pipeline_streams", "1,2,4"}};
    all.pop_back();
  }
  std::vector<Scenario> scenarios;
  for (const Values& values : all) scenarios.push_back(PipelinedScenario(catalog, values));
  return scenarios;
}

}  // namespace

Experiment Sequential() { return {SequentialScenarios}; }

Experiment Pipelined() {
  using enum Better;
  return {PipelinedScenarios,
          {{"in_ms", "ms", kLower, Range::kPositive, "in", "all parts copied in, alone"},
           {"compute_ms", "ms", kLower, Range::kPositive, "compute", "all parts computed, alone"},
           {"out_ms", "ms", kLower, Range::kPositive, "out", "all parts copied out, alone"},
           {"duplex_bound_ms", "ms", kLower, Range::kPositive, "duplex bound",
            "the bound if copies in both directions slow each other down as measured in the row"}}};
}

}  // namespace overlapbench::copy
