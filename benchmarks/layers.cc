// Layers/CrossLayer and Layers/DoubleBuffer: layers whose outputs are summed over the ranks beside
// the part of the next layer that does not need the sums.
//
// CrossLayer: `independent` percent of each layer's tokens do not need the sum of the layer before,
// and are computed beside it.
//
//   comp   free 0  tied 0   free 1   tied 1   free 2   …
//   comm                    sum 0             sum 1
//
// DoubleBuffer: no layer needs the sum of another one, but outputs take turns in `buffers` buffers.
// A layer waits for the sum of its buffer's previous contents. With one buffer, nothing can
// overlap.
//
//   comp   layer 0   layer 1   layer 2   layer 3   …      two buffers
//   comm             sum 0     sum 1     sum 2
//
// tie:events orders the two streams by events. With tie:host the host waits, before it enqueues a
// step, for what that step depends on.
//
// The plain form is one layer and its sum after the other. It makes the same calls as the pattern,
// so the results are the same bit for bit.
#include <algorithm>
#include <functional>

#include "benchmarks/training.h"
#include "kernels/linked_layers.h"

namespace overlapbench::families {
namespace {

// The tensors and works from which this family's scenarios are made.
struct Step {
  // `buffers`: the number that outputs take turns in.
  Step(const TensorWorks& tensor_works, const Settings& settings, long free_tokens, long buffers)
      : works(tensor_works), layers(settings.Integer("layers")) {
    const long tokens = settings.Integer("tokens");
    TensorShape shape = works.Shape(layers * tokens, settings.Integer("width"));
    const SharedTensor sums = works.Reached(shape);
    shape.kept_rows = buffers * tokens;
    stack = std::make_shared<LinkedLayers>(works.machine().device, layers, free_tokens,
                                           works.Reached(shape), sums);
  }

  [[nodiscard]] Work Compute(const char* name, LayerRows rows) const {
    const Machine& machine = works.machine();
    return WorkOf(name, WorkClass::kCompute,
                  {.tensors = {stack->inputs, stack->weights, stack->outputs},
                   .own_bytes = ProductWorkspaceBytes(machine.device)},
                  [machine, stack = stack, rows, seed = works.seed()] {
                    return MakeLinkedLayers(machine, stack, rows, seed);
                  });
  }
  [[nodiscard]] Work Sum() const {
    std::vector<TensorCall> calls;
    for (long layer = 0; layer < layers; ++layer) {
      const long row = layer * stack->tokens;
      calls.push_back(
          {Operation::kAllReduce, stack->outputs, stack->sums, row, row, stack->tokens});
    }
    return works.Move("sum", calls);
  }

  const TensorWorks& works;
  long layers;
  std::shared_ptr<LinkedLayers> stack;
};

// ---- CrossLayer

long FreeTokens(const Settings& settings) {
  constexpr long kPercent = 100;
  return settings.Integer("tokens") * settings.Integer("independent") / kPercent;
}

std::vector<Run> CrossLayerRuns(const TensorWorks& works, const Settings& settings) {
  const Step step(works, settings, FreeTokens(settings), settings.Integer("layers"));
  const Work free = step.Compute("free", LayerRows::kFree);
  const Work tied = step.Compute("tied", LayerRows::kTied);
  const Work sum = step.Sum();
  const auto schedule_on = [&](bool is_plain) {
    Schedule schedule;
    const auto [comp, comm] = AddLanes(schedule, is_plain);
    std::vector<std::size_t> summed;  // of the layer before
    for (long layer = 0; layer < step.layers; ++layer) {
      const Part part{layer, step.layers};
      std::vector<std::size_t> made;
      if (step.stack->free_tokens > 0) made.push_back(schedule.Add(comp, free, {.part = part}));
      made.push_back(schedule.Add(comp, tied, {.part = part, .after = summed}));
      summed = {schedule.Add(comm, sum, {.part = part, .after = made})};
    }
    return schedule;
  };
  return TrainingRuns(schedule_on(true), schedule_on(false));
}

// ---- DoubleBuffer

std::vector<Run> DoubleBufferRuns(const TensorWorks& works, const Settings& settings) {
  const long buffers = std::min(settings.Integer("buffers"), settings.Integer("layers"));
  const bool by_host = settings.Text("tie") == "host";
  const Step step(works, settings, settings.Integer("tokens"), buffers);
  const Work compute = step.Compute("compute", LayerRows::kFree);
  const Work sum = step.Sum();
  const auto schedule_on = [&](bool is_plain, bool host_waits) {
    Schedule schedule;
    const auto [comp, comm] = AddLanes(schedule, is_plain);
    std::vector<std::size_t> summed;
    for (long layer = 0; layer < step.layers; ++layer) {
      const auto options = [&](std::vector<std::size_t> awaited) {
        StepOptions made{.part = {layer, step.layers}};
        (host_waits ? made.host_after : made.after) = std::move(awaited);
        return made;
      };
      const bool is_reused = layer >= buffers;
      const std::size_t computed = schedule.Add(
          comp, compute,
          options(is_reused ? std::vector{summed[layer - buffers]} : std::vector<std::size_t>{}));
      summed.push_back(schedule.Add(comm, sum, options({computed})));
    }
    return schedule;
  };
  std::vector<Run> runs = TrainingRuns(schedule_on(true, false), schedule_on(false, by_host));
  if (by_host)
    runs.insert(runs.end() - 1, {.name = "by events", .schedule = schedule_on(false, false)});
  return runs;
}

// ----

Remark ReportLayers(const Measurement& measurement, Counters& counters) {
  if (measurement.Has("by events"))
    Report(counters, "sync_cost_ms", measurement.Total_ms() - measurement.Total_ms("by events"));
  return ReportTraining(
      measurement, counters,
      measurement.ranks() * static_cast<double>(measurement.settings().Integer("tokens")));
}

std::string Excluded(const Machine& machine, const Settings& settings) {
  const long tokens = settings.Integer("tokens");
  if (std::string why = ExcludedWidth(settings); !why.empty()) return why;
  if (settings.Has("independent") && tokens * settings.Integer("independent") % 100 != 0)
    return "tokens x independent must be a multiple of 100";
  return ExcludedTransport(machine, {Operation::kAllReduce}, settings,
                           tokens * settings.Integer("width"), "out");
}

TrainingForm FormOf(const Catalog& catalog, const char* name, const std::vector<Axis>& own_axes,
                    std::vector<Run> (*runs)(const TensorWorks&, const Settings&)) {
  std::vector<Axis> axes = LinearAxes(catalog, 64, "8");
  AppendAxes(axes, own_axes);
  return {.scenario = {.name = name,
                       .axes = std::move(axes),
                       .excluded = std::bind_front(Excluded, catalog.machine),
                       .report = ReportLayers},
          .collective = "AllReduce",
          .seed = 900,
          .runs = runs};
}

std::vector<Scenario> Scenarios(const Catalog& catalog) {
  return OverTransports(
      catalog,
      {FormOf(catalog, "Layers/CrossLayer",
              {IntegerAxis("independent", "percent of the tokens that do not wait for a sum", 0, 99,
                           "0,25,50,75")},
              CrossLayerRuns),
       FormOf(catalog, "Layers/DoubleBuffer",
              {IntegerAxis("buffers", "that the layers' outputs alternate between", 1, 64, "1,2,3"),
               ChoiceAxis("tie", "what orders the two streams: events, or the host that waits",
                          {"events", "host"}, "events,host", "events")},
              DoubleBufferRuns)});
}

}  // namespace

Family Layers() {
  return {.name = "Layers",
          .about = "Layers whose sums run beside what the next layer can already compute.",
          .lead = {"time", "speedup", "pct_of_bound", "exposed_comm_ms", "interference_ms",
                   "sync_cost_ms"},
          .scenarios = Scenarios};
}

}  // namespace overlapbench::families
