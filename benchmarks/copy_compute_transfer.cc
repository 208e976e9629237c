// Copy/ComputeTransfer: batches with one stream for transfers and one for computation. In round s
//
//   transfer   out(s - 2)  in(s)
//   compute    compute(s - 1)
//
// Batch b lives in buffer b mod buffers. With two buffers in(s) takes the place of out(s - 2) and
// comes behind it; with more it goes first. tie:events orders the streams by events; tie:host makes
// the host wait for both after every round, as synchronizing the whole device does. With one buffer
// nothing can overlap, and all work is on one stream.
#include <algorithm>
#include <functional>
#include <utility>

#include "benchmarks/copy.h"
#include "benchmarks/copy_stages.h"
#include "workload/steps.h"

namespace overlapbench::copy {
namespace {

// What orders the two streams.
enum class Tie : std::uint8_t { kEvents, kHost };

// Adds the rounds to a schedule.
void AddRounds(Schedule& schedule, const Stages& stages, long batches, long buffers, Tie tie) {
  using Steps = std::vector<std::size_t>;
  const std::size_t transfer = schedule.AddLane({"transfer"});
  const std::size_t compute = schedule.AddLane({"compute"});
  Steps previous;  // round's steps
  Steps current;
  // With tie:host, the first step of a round waits for the whole previous round instead.
  const auto add = [&](std::size_t lane, const Work& work, long batch, const Steps& after,
                       const char* engine) {
    StepOptions options{.part = {batch, batches}, .engine = engine};
    if (tie == Tie::kEvents) options.after = after;
    if (tie == Tie::kHost && current.empty()) options.host_after = previous;
    current.push_back(schedule.Add(lane, work, options));
    return current.back();
  };
  const auto exists = [&](long batch) { return batch >= 0 && batch < batches; };
  const bool in_first = buffers > 2;
  Steps in(batches);
  Steps computed(batches);
  for (long round = 0; round < batches + 2; ++round) {
    previous = std::exchange(current, {});
    const auto add_in = [&] {
      if (exists(round)) in[round] = add(transfer, stages.in, round, {}, kInEngine);
    };
    if (in_first) add_in();
    if (const long batch = round - 2; exists(batch))
      add(transfer, stages.out, batch, {computed[batch]}, kOutEngine);
    if (!in_first) add_in();
    if (const long batch = round - 1; exists(batch))
      computed[batch] = add(compute, stages.compute, batch, {in[batch]}, kComputeEngine);
  }
}

Run BufferedRun(const char* name, const Stages& stages, long batches, long buffers, Tie tie) {
  if (buffers == 1) return SequentialRun(name, stages, batches);
  Run run{.name = name};
  AddRounds(run.schedule, stages, batches, buffers, tie);
  return run;
}

std::vector<Run> Runs(const Machine& machine, const Settings& settings) {
  const long batches = settings.Integer("batches");
  const long buffers = std::min(settings.Integer("buffers"), batches);
  const Tie tie = settings.Text("tie") == "host" ? Tie::kHost : Tie::kEvents;
  // Alone, a stage needs room for all batches.
  const StagedShape roomy = ShapeOf(settings, "batch_elements", batches, batches);
  const StagedShape tight = ShapeOf(settings, "batch_elements", batches, buffers);
  std::vector<Run> runs =
      WithSoloRuns(SequentialRun("sequential", StagesOf(machine, roomy), batches));
  const Stages stages = StagesOf(machine, tight);
  runs.back() = SequentialRun("sequential", stages, batches);
  if (tie == Tie::kHost)
    runs.push_back(BufferedRun("by events", stages, batches, buffers, Tie::kEvents));
  runs.push_back(BufferedRun("buffered", stages, batches, buffers, tie));
  return runs;
}

Remark ReportBuffered(const Measurement& measurement, Counters& counters) {
  const bool identical = ReportStages(measurement, counters);
  if (measurement.Has("by events"))
    Report(counters, "sync_cost_ms", measurement.Total_ms() - measurement.Total_ms("by events"));
  return identical ? Remark{} : NotIdentical();
}

std::vector<Scenario> Scenarios(const Catalog& catalog) {
  Scenario scenario{.name = "Copy/ComputeTransfer"};
  scenario.axes = {
      IntegerAxis("batches", "batches of one sample", 1, 1024, "4"),
      IntegerAxis("batch_elements", "float32 values of a batch", 1, 1L << 30, "524288"),
      IntegerAxis("buffers", "batches that the device has room for", 1, 64, "1,2,3"),
      ChoiceAxis("tie", "what orders the two streams: events, or the host waiting for both",
                 {"events", "host"}, "events,host", "events"),
      MemoryAxis(),
      IntensityAxis(kMostSteps, catalog.on_host() ? "4" : "4096")};
  scenario.excluded = std::bind_front(NoSuchMemory, std::cref(catalog.device));
  scenario.runs = std::bind_front(Runs, catalog.machine);
  scenario.report = ReportBuffered;
  return {scenario};
}

}  // namespace

Experiment ComputeTransfer() { return {Scenarios}; }

}  // namespace overlapbench::copy
