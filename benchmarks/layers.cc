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
#include "comm/tensor_collective.h"
#include "kernels/linear.h"
#include "kernels/linked_layers.h"

namespace overlapbench::families {
namespace {

constexpr std::uint32_t kSeed = 900;

// The tensors and works from which this family's scenarios are made.
struct Step {
  // `buffers`: the number that outputs take turns in.
  Step(const Catalog& catalog, const std::shared_ptr<Transports>& transports,
       const Settings& settings, long free_tokens, long buffers)
      : machine(Planned(catalog.machine, settings)),
        communicator(std::make_shared<LaneCommunicator>(transports, settings)),
        layers(settings.Integer("layers")) {
    const long tokens = settings.Integer("tokens");
    TensorShape shape{.element = LayerElement(machine.device),
                      .rows = layers * tokens,
                      .columns = settings.Integer("width")};
    const SharedTensor sums = MakeTensor(communicator, shape);
    shape.kept_rows = buffers * tokens;
    stack = std::make_shared<LinkedLayers>(machine.device, layers, free_tokens,
                                           MakeTensor(communicator, shape), sums);
  }

  [[nodiscard]] Work Compute(const char* name, LayerRows rows) const {
    // What both kinds of rows share is counted once: with the tied rows, or with the free ones if
    // there are no others.
    const bool counts = rows == LayerRows::kTied || stack->free_tokens == stack->tokens;
    return WorkOf(
        name, WorkClass::kCompute,
        {.own_bytes = (counts ? stack->bytes() : 0) + ProductWorkspaceBytes(machine.device)},
        [machine = machine, stack = stack, rows] {
          return MakeLinkedLayers(machine, stack, rows, kSeed);
        });
  }
  [[nodiscard]] Work Sum() const {
    std::vector<TensorCall> calls;
    for (long layer = 0; layer < layers; ++layer) {
      const long row = layer * stack->tokens;
      calls.push_back(
          {Operation::kAllReduce, stack->outputs, stack->sums, row, row, stack->tokens});
    }
    return CollectiveOf("sum", calls, {.tensors = {stack->outputs, stack->sums}},
                        [machine = machine, communicator = communicator, calls] {
                          return MakeTensorCollective(machine, communicator, calls, kSeed);
                        });
  }

  Machine machine;
  SharedLaneCommunicator communicator;
  long layers;
  std::shared_ptr<LinkedLayers> stack;
};

struct Lanes {
  std::size_t comp;
  std::size_t comm;
};
// One lane for both, or one each.
Lanes AddLanes(Schedule& schedule, bool one_lane) {
  const std::size_t comp = schedule.AddLane({.name = one_lane ? "lane" : "comp"});
  return {comp, one_lane ? comp : schedule.AddLane({.name = "comm"})};
}

// ---- CrossLayer

long FreeTokens(const Settings& settings) {
  constexpr long kPercent = 100;
  return settings.Integer("tokens") * settings.Integer("independent") / kPercent;
}

std::vector<Run> CrossLayerRuns(const Step& step) {
  const Work free = step.Compute("free", LayerRows::kFree);
  const Work tied = step.Compute("tied", LayerRows::kTied);
  const Work sum = step.Sum();
  const auto schedule_on = [&](bool one_lane) {
    Schedule schedule;
    const auto [comp, comm] = AddLanes(schedule, one_lane);
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

long Buffers(const Settings& settings) {
  return std::min(settings.Integer("buffers"), settings.Integer("layers"));
}

std::vector<Run> DoubleBufferRuns(const Step& step, long buffers, bool by_host) {
  const Work compute = step.Compute("compute", LayerRows::kFree);
  const Work sum = step.Sum();
  const auto schedule_on = [&](bool one_lane, bool host_waits) {
    Schedule schedule;
    const auto [comp, comm] = AddLanes(schedule, one_lane);
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
  const long width = settings.Integer("width");
  if (width % 16 != 0) return "width must be a multiple of 16";
  if (settings.Has("independent") && tokens * settings.Integer("independent") % 100 != 0)
    return "tokens x independent must be a multiple of 100";
  const long bytes = tokens * width * static_cast<long>(SizeOf(LayerElement(machine.device)));
  return NoTransport(machine, {Operation::kAllReduce},
                     settings.With("bytes", std::to_string(bytes)).With("place", "out"));
}

struct Form {
  const char* name;
  std::vector<Axis> axes;
  std::vector<Run> (*runs)(const Catalog&, const std::shared_ptr<Transports>&, const Settings&);
};

std::vector<Form> Forms() {
  return {{"Layers/CrossLayer",
           {IntegerAxis("independent", "percent of the tokens that do not wait for a sum", 0, 99,
                        "0,25,50,75")},
           [](const Catalog& catalog, const std::shared_ptr<Transports>& transports,
              const Settings& settings) {
             return CrossLayerRuns(Step(catalog, transports, settings, FreeTokens(settings),
                                        settings.Integer("layers")));
           }},
          {"Layers/DoubleBuffer",
           {IntegerAxis("buffers", "that the layers' outputs alternate between", 1, 64, "1,2,3"),
            ChoiceAxis("tie", "what orders the two streams: events, or the host that waits",
                       {"events", "host"}, "events,host", "events")},
           [](const Catalog& catalog, const std::shared_ptr<Transports>& transports,
              const Settings& settings) {
             return DoubleBufferRuns(
                 Step(catalog, transports, settings, settings.Integer("tokens"), Buffers(settings)),
                 Buffers(settings), settings.Text("tie") == "host");
           }}};
}

Scenario FormScenario(const Catalog& catalog, const Form& form, const std::string& transport,
                      const std::shared_ptr<Transports>& transports) {
  const bool host = catalog.on_host();
  std::vector<Axis> axes = {
      IntegerAxis("layers", "equal linear layers", 1, 64, "8"), WidthAxis(catalog),
      IntegerAxis("tokens", "tokens of one rank", 1, 1L << 24, host ? "128" : "4096")};
  AppendAxes(axes, form.axes);
  Scenario scenario = TrainingScenario(catalog, form.name, "AllReduce", transport, std::move(axes));
  scenario.excluded = std::bind_front(Excluded, catalog.machine);
  scenario.runs = std::bind_front(form.runs, catalog, transports);
  scenario.report = ReportLayers;
  return scenario;
}

}  // namespace

Family Layers() {
  return {.name = "Layers",
          .about = "Layers whose sums run beside what the next layer can already compute.",
          .lead = {"time", "speedup", "pct_of_bound", "exposed_comm_ms", "interference_ms",
                   "sync_cost_ms"},
          .scenarios = [](const Catalog& catalog) {
            std::vector<MakeOver> forms;
            for (const Form& form : Forms())
              forms.emplace_back([&, form](const auto& transport, const auto& transports) {
                return FormScenario(catalog, form, transport, transports);
              });
            return OverTransports(catalog, forms);
          }};
}

}  // namespace overlapbench::families
