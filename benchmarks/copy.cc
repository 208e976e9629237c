// Copy: how fast data moves, and how well moving it hides behind computing.
//
// - Bandwidth: every route alone, and both directions of the bus at once; kinds of host memory,
//   sizes, copy engine against SMs.
// - Sequential: copy in, compute, copy out, one after the other.
// - Pipelined: the same in parts, a stream each. While one part is computed, another comes in and a
//   third goes out: two copy engines and the SMs at once. With pageable memory every copy makes the
//   host wait, and nothing can overlap.
// - ComputeTransfer: batches with one stream for transfers and one for computation. In round s
//
//     transfer   out(s - 2)  in(s)
//     compute    compute(s - 1)
//
//   Batch b lives in buffer b mod buffers. With two buffers in(s) takes the place of out(s - 2) and
//   comes behind it; with more it goes first. tie:events orders the streams by events; tie:host
//   makes the host wait for both after every round, as synchronizing the whole device does. With
//   one buffer nothing can overlap, and all work is on one stream.
// - Fragmented: one large transfer against many small ones. The host's time for the calls is part
//   of the question, and more calls than a stream's queue holds would block at a closed gate. These
//   samples are therefore not gated.
//
// Results must equal those of the sequential run bit for bit.
#include <fmt/core.h>

#include <algorithm>

#include "benchmarks/scenario.h"
#include "comm/staged_array.h"
#include "workload/steps.h"

namespace overlapbench::families {
namespace {

constexpr double kPercent = 100;
constexpr double kMicrosecondsInMillisecond = 1000;

// The engine that each stage of a staged array uses.
constexpr const char* kInEngine = "host to device";
constexpr const char* kComputeEngine = "compute";
constexpr const char* kOutEngine = "device to host";

// ---- Bandwidth

// Copies in both directions at once, and each direction alone, to report its rate and slowdown.
std::vector<Run> DuplexRuns(const WorkloadSpec& in, const WorkloadSpec& out,
                            const Settings& settings) {
  Run both{.name = "both", .timed = Timed::kLanes};
  for (const WorkloadSpec* spec : {&in, &out})
    both.schedule.Add(both.schedule.AddLane({spec->name}), MakeWork(*spec, settings));
  return WithSoloRuns(both);
}

Remark ReportDuplex(const Measurement& measurement, Counters& counters) {
  constexpr double kGBpsFromBytesPerMs = 1e-6;
  struct Direction {
    const char* copy;
    const char* rate;
    const char* slowdown;
  };
  constexpr Direction kDirections[] = {
      {"HostToDevice", "host_to_device_GBps", "host_to_device_slowdown"},
      {"DeviceToHost", "device_to_host_GBps", "device_to_host_slowdown"}};
  Series sum_GBps(std::vector<double>(measurement.groups().size()));
  for (const auto& [copy, rate, slowdown] : kDirections) {
    const Series own_ms = measurement.LaneOwn_ms("both", copy);
    const Series GBps = measurement.CostOf(copy).copied_bytes * kGBpsFromBytesPerMs / own_ms;
    Report(counters, rate, GBps);
    Report(counters, slowdown, own_ms / measurement.LaneOwn_ms(copy, copy));
    sum_GBps = sum_GBps + GBps;
  }
  Report(counters, "GBps", sum_GBps);
  return {};
}

void AddBandwidth(const Catalog& catalog, std::vector<Scenario>& scenarios) {
  const char* const all_bytes =  // a curve of bandwidth against size
      catalog.on_host() ? "64K,1M,16M" : "4K,64K,1M,16M,64M,256M,1G";
  const char* const few_bytes =  // the ends and the bend of the curve only
      catalog.on_host() ? "64K,16M" : "64K,1M,64M,1G";
  const Values pinned = {{"bytes", all_bytes}};
  const Values others = {{"bytes", few_bytes}, {"memory", "registered,pageable"}};
  const Values by_sm = {{"bytes", few_bytes}, {"engine", "sm"}};
  const std::string name = "Copy/Bandwidth/direction:";
  const auto find = [&](const char* spec) -> const WorkloadSpec& {
    return catalog.workloads.Find(spec);
  };
  const WorkloadSpec& in = find("HostToDevice");
  const WorkloadSpec& out = find("DeviceToHost");
  for (const Values& values : {pinned, others, by_sm}) {
    scenarios.push_back(Baseline(name + "host_to_device", in, values));
    scenarios.push_back(Baseline(name + "device_to_host", out, values));
    Scenario both = ScenarioOf(name + "both", {&in, &out}, values);
    both.runs = [&in, &out](const Settings& settings) { return DuplexRuns(in, out, settings); };
    both.report = ReportDuplex;
    scenarios.push_back(both);
  }
  for (const Values& values : {pinned, by_sm}) {
    scenarios.push_back(Baseline(name + "device_local", find("DeviceCopy"), values));
    scenarios.push_back(Baseline(name + "peer", find("PeerCopy"), values));
  }
}

// ---- Pipelines: in, compute, out

struct Stages {
  Work in;
  Work compute;
  Work out;
};

// The stages of one array, which the first stage to be made creates.
Stages StagesOf(const Machine& machine, const StagedShape& shape) {
  const auto array = std::make_shared<std::weak_ptr<StagedArray>>();
  const auto stage = [&](const char* name, WorkClass work_class, Stage which, Footprint footprint) {
    WorkPlan plan{.name = name, .work_class = work_class, .footprint = footprint};
    plan.make = [array, machine, shape, which] {
      std::shared_ptr<StagedArray> made = array->lock();
      if (made == nullptr) *array = made = std::make_shared<StagedArray>(machine, shape);
      return StagedArray::MakeStage(std::move(made), which);
    };
    return std::make_shared<const WorkPlan>(std::move(plan));
  };
  return {stage("in", WorkClass::kMemory, Stage::kIn, shape.footprint()),
          stage("compute", WorkClass::kCompute, Stage::kCompute, {}),
          stage("out", WorkClass::kMemory, Stage::kOut, {})};
}

StagedShape ShapeOf(const Settings& settings, const char* elements, long parts, long slots) {
  return {parts, slots, settings.Integer(elements), static_cast<int>(settings.Integer("intensity")),
          MemoryKindNamed(settings.Text("memory"))};
}

// Part `index` through all three stages on one lane.
void AddInTurn(Schedule& schedule, std::size_t lane, const Stages& stages, const Part& part) {
  const std::size_t in = schedule.Add(lane, stages.in, {.part = part, .engine = kInEngine});
  const std::size_t compute =
      schedule.Add(lane, stages.compute, {.part = part, .after = {in}, .engine = kComputeEngine});
  schedule.Add(lane, stages.out, {.part = part, .after = {compute}, .engine = kOutEngine});
}

Run Sequential(const Stages& stages, long parts) {
  Run run{.name = "sequential"};
  const std::size_t lane = run.schedule.AddLane({"sequential"});
  for (long part = 0; part < parts; ++part) AddInTurn(run.schedule, lane, stages, {part, parts});
  return run;
}

Run Pipelined(const Stages& stages, long parts) {
  Run run{.name = "pipelined"};
  for (long part = 0; part < parts; ++part) {
    const std::size_t lane = run.schedule.AddLane({fmt::format("part {}", part)});
    AddInTurn(run.schedule, lane, stages, {part, parts});
  }
  return run;
}

// Both copies at once, of independent arrays: how much they slow each other down.
Run Duplex(const Work& in, const Work& out, long parts) {
  Run run{.name = "duplex", .timed = Timed::kLanes};
  for (const auto& [work, engine] : {std::pair(in, kInEngine), {out, kOutEngine}}) {
    const std::size_t lane = run.schedule.AddLane({engine});
    for (long part = 0; part < parts; ++part) run.schedule.Add(lane, work, {.part = {part, parts}});
  }
  return run;
}

std::vector<Axis> StagedAxes(bool host) {
  constexpr long kMostElements = 1L << 32;
  return {
      IntegerAxis("elements", "float32 values brought in and out", 1, kMostElements,
                  host ? "1048576" : "4194304"),
      ChoiceAxis("memory", "kind of host memory", {"pinned", "registered", "pageable"}, "pinned",
                 "pinned"),
      IntegerAxis("intensity", "multiply-adds for each value", 1, 1L << 24, host ? "4" : "2048")};
}

std::string ExcludedStaged(const Device& device, const Settings& settings) {
  const long streams = settings.Has("pipeline_streams") ? settings.Integer("pipeline_streams") : 1;
  constexpr long kMostExact = (1L << 24) - 256;  // whole numbers of float32
  if (settings.Integer("elements") % streams != 0)
    return "elements must be a multiple of pipeline_streams";
  if (settings.Integer("intensity") > kMostExact) return "intensity must be at most 2^24 - 256";
  return NoSuchMemory(device, settings);
}

Scenario SequentialScenario(const Catalog& catalog) {
  Scenario scenario{.name = "Copy/Sequential", .axes = StagedAxes(catalog.on_host())};
  SetValues(scenario.axes, {{"memory", "pinned,pageable"}});
  scenario.excluded = [&device = catalog.device](const Settings& settings) {
    return ExcludedStaged(device, settings);
  };
  scenario.runs = [machine = catalog.machine](const Settings& settings) {
    return std::vector<Run>{Sequential(StagesOf(machine, ShapeOf(settings, "elements", 1, 1)), 1)};
  };
  return scenario;
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
  return {Sequential(stages, 1),
          SoloRun(stages.in),
          SoloRun(stages.compute),
          SoloRun(stages.out),
          Duplex(stages.in, std::make_shared<const WorkPlan>(std::move(other_out)), parts),
          Pipelined(stages, parts)};
}

// The bound if both directions of the bus slow each other down as measured.
double DuplexBound_ms(const Measurement& measurement) {
  const auto slowdown = [&](const char* engine, const char* alone) {
    return (measurement.LaneOwn_ms("duplex", engine) / measurement.Total_ms(alone)).median();
  };
  const Contention contentions[] = {{kInEngine, kOutEngine, slowdown(kInEngine, "in")},
                                    {kOutEngine, kInEngine, slowdown(kOutEngine, "out")}};
  return measurement.ContendedBound_ms("pipelined", contentions);
}

// Reports what both patterns of stages share. Returns whether the result is the sequential run's.
bool ReportStages(const Measurement& measurement, Counters& counters) {
  const bool identical = measurement.Identical("sequential", measurement.own().name);
  ReportBound(measurement, counters);
  for (const char* const run : {"sequential", "in", "compute", "out"})
    Report(counters, std::string(run) + "_ms", measurement.Total_ms(run));
  Report(counters, "speedup", measurement.Total_ms("sequential") / measurement.Total_ms());
  counters["identical"] = identical ? 1 : 0;
  return identical;
}

Remark NotIdentical() { return Remark::Invalid("the result is not that of the sequential run"); }

Remark ReportPipelined(const Measurement& measurement, Counters& counters) {
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
  Scenario scenario{.name = "Copy/Pipelined", .axes = StagedAxes(catalog.on_host())};
  scenario.axes.push_back(
      IntegerAxis("pipeline_streams", "streams, and parts of the array", 1, 64, "1,2,4,8,16"));
  SetValues(scenario.axes, values);
  scenario.excluded = [&device = catalog.device](const Settings& settings) {
    return ExcludedStaged(device, settings);
  };
  scenario.runs = [machine = catalog.machine](const Settings& settings) {
    return PipelinedRuns(machine, settings);
  };
  scenario.report = ReportPipelined;
  return scenario;
}

// ---- ComputeTransfer

// Adds the rounds of ComputeTransfer to a schedule.
class DoubleBuffering {
 public:
  DoubleBuffering(Schedule& schedule, const Stages& stages, long batches, long buffers,
                  bool by_host)
      : schedule_(schedule),
        stages_(stages),
        batches_(batches),
        in_first_(buffers > 2),
        by_host_(by_host),
        transfer_(schedule.AddLane({"transfer"})),
        compute_(schedule.AddLane({"compute"})),
        in_(batches),
        computed_(batches) {}

  void AddRounds() {
    for (long round = 0; round < batches_ + 2; ++round) {
      previous_ = std::exchange(current_, {});
      if (in_first_) AddIn(round);
      AddOut(round - 2);
      if (!in_first_) AddIn(round);
      AddCompute(round - 1);
    }
  }

 private:
  void AddIn(long batch) {
    if (Exists(batch)) in_[batch] = Add(transfer_, stages_.in, batch, {}, kInEngine);
  }
  void AddCompute(long batch) {
    if (Exists(batch))
      computed_[batch] = Add(compute_, stages_.compute, batch, {in_[batch]}, kComputeEngine);
  }
  void AddOut(long batch) {
    if (Exists(batch)) Add(transfer_, stages_.out, batch, {computed_[batch]}, kOutEngine);
  }

  // With tie:host, the first step of a round waits for the whole previous round instead.
  std::size_t Add(std::size_t lane, const Work& work, long batch, std::vector<std::size_t> after,
                  const char* engine) {
    Schedule::StepOptions options{.part = {batch, batches_}, .engine = engine};
    if (!by_host_) options.after = std::move(after);
    if (by_host_ && current_.empty()) options.host_after = previous_;
    current_.push_back(schedule_.Add(lane, work, std::move(options)));
    return current_.back();
  }
  [[nodiscard]] bool Exists(long batch) const { return batch >= 0 && batch < batches_; }

  Schedule& schedule_;
  const Stages& stages_;
  long batches_;
  bool in_first_;
  bool by_host_;
  std::size_t transfer_;
  std::size_t compute_;
  std::vector<std::size_t> in_;
  std::vector<std::size_t> computed_;
  std::vector<std::size_t> previous_;  // round's steps
  std::vector<std::size_t> current_;
};

Run Buffered(const char* name, const Stages& stages, long batches, long buffers, bool by_host) {
  if (buffers == 1) {
    Run run = Sequential(stages, batches);
    run.name = name;
    return run;
  }
  Run run{.name = name};
  DoubleBuffering(run.schedule, stages, batches, buffers, by_host).AddRounds();
  return run;
}

std::vector<Run> ComputeTransferRuns(const Machine& machine, const Settings& settings) {
  const long batches = settings.Integer("batches");
  const long buffers = std::min(settings.Integer("buffers"), batches);
  // Alone, a stage needs room for all batches.
  const StagedShape roomy = ShapeOf(settings, "batch_elements", batches, batches);
  const StagedShape tight = ShapeOf(settings, "batch_elements", batches, buffers);
  std::vector<Run> runs = WithSoloRuns(Sequential(StagesOf(machine, roomy), batches));
  const Stages stages = StagesOf(machine, tight);
  runs.back() = Sequential(stages, batches);
  if (settings.Text("tie") == "host")
    runs.push_back(Buffered("by events", stages, batches, buffers, false));
  runs.push_back(Buffered("buffered", stages, batches, buffers, settings.Text("tie") == "host"));
  return runs;
}

Remark ReportComputeTransfer(const Measurement& measurement, Counters& counters) {
  const bool identical = ReportStages(measurement, counters);
  if (measurement.Has("by events"))
    Report(counters, "sync_cost_ms", measurement.Total_ms() - measurement.Total_ms("by events"));
  return identical ? Remark{} : NotIdentical();
}

Scenario ComputeTransfer(const Catalog& catalog) {
  Scenario scenario{.name = "Copy/ComputeTransfer"};
  scenario.axes = {
      IntegerAxis("batches", "batches of one sample", 1, 1024, "4"),
      IntegerAxis("batch_elements", "float32 values of a batch", 1, 1L << 30, "524288"),
      IntegerAxis("buffers", "batches that the device has room for", 1, 64, "1,2,3"),
      ChoiceAxis("tie", "what orders the two streams: events, or the host waiting for both",
                 {"events", "host"}, "events,host", "events"),
      ChoiceAxis("memory", "kind of host memory", {"pinned", "registered", "pageable"}, "pinned",
                 "pinned"),
      IntegerAxis("intensity", "multiply-adds for each value", 1, kMostSteps,
                  catalog.on_host() ? "4" : "4096")};
  scenario.excluded = [&device = catalog.device](const Settings& settings) {
    return NoSuchMemory(device, settings);
  };
  scenario.runs = [machine = catalog.machine](const Settings& settings) {
    return ComputeTransferRuns(machine, settings);
  };
  scenario.report = ReportComputeTransfer;
  return scenario;
}

// ---- Fragmented

std::vector<Run> FragmentedRuns(const WorkloadSpec& copy, const WorkloadSpec& batch,
                                const Settings& settings) {
  const Work one = MakeWork(copy, settings, "one transfer");
  const long fragments = settings.Integer("fragments");
  Run run{.name = "fragmented", .gated = false, .as_graph = settings.Text("call") == "graph"};
  const std::size_t lane = run.schedule.AddLane({"MEM"});
  if (settings.Text("call") == "batch") {
    run.schedule.Add(lane, MakeWork(batch, settings, "fragments"));
  } else {
    for (long i = 0; i < fragments; ++i) run.schedule.Add(lane, one, {.part = {i, fragments}});
  }
  return {SoloRun(one, false), run};
}

Remark ReportFragmented(const Measurement& measurement, Counters& counters) {
  constexpr double kLatencyBound = 1.5;
  ReportOwnRates(measurement, counters);
  const double us_each =
      kMicrosecondsInMillisecond / static_cast<double>(measurement.settings().Integer("fragments"));
  const Series one_ms = measurement.Total_ms("one transfer");
  const Series slowdown = measurement.Total_ms() / one_ms;
  Report(counters, "one_transfer_ms", one_ms);
  Report(counters, "fragmented_slowdown", slowdown);
  Report(counters, "us_per_fragment", us_each * measurement.Total_ms());
  Report(counters, "host_us_per_fragment", us_each * measurement.Enqueue_ms("fragmented"));
  return Remark::Finding(slowdown.median() > kLatencyBound ? "latency-bound" : "bandwidth-bound");
}

Scenario Fragmented(const Catalog& catalog) {
  const WorkloadSpec& copy = catalog.workloads.Find("HostToDevice");
  const WorkloadSpec& batch = catalog.workloads.Find("BatchCopy");
  Scenario scenario{.name = "Copy/Fragmented", .axes = batch.axes};
  scenario.axes.push_back(ChoiceAxis("call",
                                     "a call for each copy, one for all, or a recorded graph",
                                     {"loop", "batch", "graph"}, "loop,batch,graph"));
  scenario.excluded = [&batch, &device = catalog.device](const Settings& settings) -> std::string {
    if (settings.Text("call") == "batch") return batch.excluded(settings);
    if (settings.Integer("bytes") % (4 * settings.Integer("fragments")) != 0)
      return "bytes must be a multiple of 4 * fragments";
    return settings.Text("call") == "graph" ? device.NoGraphs() : "";
  };
  scenario.runs = [&copy, &batch](const Settings& settings) {
    return FragmentedRuns(copy, batch, settings);
  };
  scenario.report = ReportFragmented;
  return scenario;
}

std::vector<Counter> CopyCounters() {
  using enum Better;
  return {
      {"host_to_device_GBps", "GB/s", kHigher, Range::kNotNegative, "in",
       "bytes / the copy's own time while both directions run; GBps is the sum of both"},
      {"device_to_host_GBps", "GB/s", kHigher, Range::kNotNegative, "out",
       "the same for the other direction"},
      {"host_to_device_slowdown", "", kLower, Range::kNotNegative, "in slowdown",
       "the copy's own time while both directions run / alone"},
      {"device_to_host_slowdown", "", kLower, Range::kNotNegative, "out slowdown",
       "the same for the other direction"},
      {"in_ms", "ms", kLower, Range::kPositive, "in", "all parts copied in, alone"},
      {"compute_ms", "ms", kLower, Range::kPositive, "compute", "all parts computed, alone"},
      {"out_ms", "ms", kLower, Range::kPositive, "out", "all parts copied out, alone"},
      {"duplex_bound_ms", "ms", kLower, Range::kPositive, "duplex bound",
       "the bound if copies in both directions slow each other down as measured in the row"},
      {"one_transfer_ms", "ms", kLower, Range::kPositive, "one transfer",
       "the same bytes in one copy"},
      {"fragmented_slowdown", "", kLower, Range::kPositive, "slowdown", "T / one transfer"},
      {"us_per_fragment", "us", kLower, Range::kPositive, "per fragment", "T / fragments"},
      {"host_us_per_fragment", "us", kLower, Range::kNotNegative, "host per fragment",
       "the host's time to enqueue / fragments"},
  };
}

std::vector<Scenario> Scenarios(const Catalog& catalog) {
  std::vector<Scenario> scenarios;
  AddBandwidth(catalog, scenarios);
  scenarios.push_back(SequentialScenario(catalog));
  if (catalog.on_host()) {
    scenarios.push_back(
        PipelinedScenario(catalog, {{"intensity", "1,4,16"}, {"pipeline_streams", "1,2,4"}}));
  } else {  // from copy-bound to compute-bound
    scenarios.push_back(PipelinedScenario(catalog, {{"intensity", "16,2048,8192"}}));
  }
  scenarios.push_back(
      PipelinedScenario(catalog, {{"memory", "pageable"}, {"pipeline_streams", "1,4"}}));
  if (!catalog.on_host()) {  // where fixed costs no longer matter
    scenarios.push_back(PipelinedScenario(
        catalog, {{"elements", "67108864"}, {"intensity", "2048"}, {"pipeline_streams", "1,4"}}));
  }
  scenarios.push_back(ComputeTransfer(catalog));
  scenarios.push_back(Fragmented(catalog));
  return scenarios;
}

}  // namespace

Family Copy() {
  return {.name = "Copy",
          .about =
              "Bandwidth of every route, pipelines of copies and kernels against their bound, "
              "and many small copies against one.",
          .lead = {"time", "GBps", "speedup", "pct_of_bound", "sync_cost_ms", "fragmented_slowdown",
                   "us_per_fragment"},
          .counters = CopyCounters(),
          .scenarios = &Scenarios};
}

}  // namespace overlapbench::families
