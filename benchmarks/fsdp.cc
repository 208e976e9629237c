// Fsdp/Prefetch: how much of a sharded step's communication is exposed, and what does it cost in
// memory to gather layers ahead of their use?
//
// Each rank keeps 1/ranks of the weights of `layers` equal layers of `width`². A layer is gathered
// before it is used, forward and again backward, and its memory is reused for another layer
// afterwards. The gradients of a layer are summed as soon as they are computed, and each rank keeps
// its shard of the sums (Y. Zhao et al., PyTorch FSDP: Experiences on Scaling Fully Sharded Data
// Parallel, 2023). With `prefetch` 1:
//
//   comp         forward 1  forward 2  …   backward L   backward L-1              backward L-2 …
//   comm   get 1 get 2      get 3      …   get L-1      get L-2   sum of L        …
//
// As in PyTorch, one communicator executes gathers and sums, one at a time, so the next layer is
// gathered before the last gradients are summed. prefetch + 1 gathered layers take turns in memory,
// and so do three layers' gradients. A gather waits until the layer that it overwrites has been
// used. With `prefetch` 0, every gather is exposed, and only sums run beside the computation.
//
// The plain form has the same steps on one lane.
#include <fmt/core.h>

#include <algorithm>
#include <functional>

#include "benchmarks/training.h"

namespace overlapbench::families {
namespace {

// A sum by copy engine adds on SMs, which are free only when the products beside it end. With two
// buffers the product after them would wait for it.
constexpr long kGradientBuffers = 3;

// Layers are counted in the order of their use: forward 0 … layers-1, then backward.
struct ShardedStep {
  long layers = 0;
  Work gather;    // of 2·layers parts
  Work forward;   // of `layers` parts
  Work backward;  // the same
  Work scatter;   // the same
};

// One tensor for each of `count` uses, which use the memory of `buffers` in turn.
std::vector<SharedTensor> InTurn(const std::vector<SharedTensor>& buffers, long count) {
  std::vector<SharedTensor> uses;
  for (long use = 0; use < count; ++use)
    uses.push_back(buffers[use % static_cast<long>(buffers.size())]->Alias());
  return uses;
}

ShardedStep MakeStep(const TensorWorks& works, const Settings& settings) {
  constexpr long kRowsApart = 16;  // from one layer's Xᵀ to the next's
  const int ranks = works.machine().ranks.size();
  const long layers = settings.Integer("layers");
  const long width = settings.Integer("width");
  const long tokens = settings.Integer("tokens");
  const TensorShape layer = works.Shape(width, width);
  const TensorShape activation = works.Shape(tokens, width);
  const auto reached = [&](long count) {
    std::vector<SharedTensor> tensors;
    for (long i = 0; i < count; ++i) tensors.push_back(works.Reached(layer));
    return tensors;
  };
  const long buffers = settings.Integer("prefetch") + 1;
  const auto weights = InTurn(reached(buffers), 2 * layers);
  const auto gradients = InTurn(reached(kGradientBuffers), layers);
  const SharedTensor shards = works.Reached(works.Shape(layers * width / ranks, width));
  const SharedTensor x = works.Own(activation);
  const SharedTensor dy = works.Own(activation);
  const SharedTensor transposed = works.Own(works.Shape(width + (layers - 1) * kRowsApart, tokens));

  std::vector<TensorCall> gathers;
  std::vector<LinearProblem> forward;
  std::vector<LinearProblem> backward;
  std::vector<TensorCall> scatters;
  for (long use = 0; use < 2 * layers; ++use) {
    const long of = use < layers ? use : 2 * layers - 1 - use;
    gathers.push_back({.operation = Operation::kAllGather,
                       .send = shards,
                       .receive = weights[use],
                       .send_row = of * width / ranks,
                       .rows = width});
    (use < layers ? forward : backward)
        .push_back({.a = use < layers ? x : dy, .w = weights[use], .d = works.Own(activation)});
    if (use < layers) continue;
    const SharedTensor& gradient = gradients[use - layers];
    backward.push_back({.a = transposed, .w = dy, .d = gradient, .a_row = of * kRowsApart});
    scatters.push_back({.operation = Operation::kReduceScatter,
                        .send = gradient,
                        .receive = works.Reached(works.Shape(width / ranks, width))});
  }
  return {layers, works.Move("gather", gathers), works.Multiply("forward", forward, true),
          works.Multiply("backward", backward, true), works.Move("scatter", scatters, true)};
}

Schedule ScheduleOf(const ShardedStep& step, long prefetch, bool is_plain) {
  Schedule schedule;
  const auto [comp, comm] = AddLanes(schedule, is_plain);
  const long layers = step.layers;
  std::vector<std::size_t> gathered;
  std::vector<std::size_t> used;
  std::vector<std::size_t> summed;
  const auto gather = [&, comm = comm] {
    const long use = std::ssize(gathered);
    StepOptions options{.part = {use, 2 * layers}};
    if (use > prefetch) options.after = {used[use - prefetch - 1]};  // whose memory it takes
    gathered.push_back(schedule.Add(comm, step.gather, options));
  };
  const auto sum = [&, comm = comm] {
    const long layer = std::ssize(summed);
    summed.push_back(schedule.Add(comm, step.scatter,
                                  {.part = {layer, layers}, .after = {used[layers + layer]}}));
  };
  for (long use = 0; use < 2 * layers; ++use) {
    while (std::ssize(gathered) <= std::min(use + prefetch, 2 * layers - 1)) gather();
    if (use > layers) sum();
    StepOptions options{.part = {use % layers, layers}, .after = {gathered[use]}};
    if (const long frees = use - layers - kGradientBuffers; frees >= 0)
      options.after.push_back(summed[frees]);
    used.push_back(schedule.Add(comp, use < layers ? step.forward : step.backward, options));
  }
  sum();
  return schedule;
}

std::vector<Run> ShardedRuns(const TensorWorks& works, const Settings& settings) {
  const ShardedStep step = MakeStep(works, settings);
  return TrainingRuns(ScheduleOf(step, 0, true),
                      ScheduleOf(step, settings.Integer("prefetch"), false));
}

std::string Excluded(const Machine& machine, const Settings& settings) {
  const long width = settings.Integer("width");
  if (std::string why = ExcludedWidth(settings); !why.empty()) return why;
  if (width % machine.ranks.size() != 0)
    return fmt::format("width:{} must be a multiple of the {} ranks", width, machine.ranks.size());
  if (settings.Integer("prefetch") >= settings.Integer("layers"))
    return "prefetch must be less than layers";
  return ExcludedTransport(machine, {Operation::kAllGather, Operation::kReduceScatter}, settings,
                           LayerCount(settings), "out");
}

Remark ReportSharded(const Measurement& measurement, Counters& counters) {
  const Settings& settings = measurement.settings();
  const int ranks = measurement.ranks();
  const long whole_layers = settings.Integer("prefetch") + 1 + kGradientBuffers;
  counters["unsharded_bytes"] = static_cast<double>(whole_layers * LayerCount(settings)) *
                                static_cast<double>(SizeOf(LayerElement(measurement.device())));
  return ReportTraining(measurement, counters,
                        static_cast<double>(ranks * settings.Integer("tokens")),
                        ranks == 2 ? Identity::kRequired : Identity::kReported);
}

TrainingForm Prefetched(const Catalog& catalog) {
  std::vector<Axis> axes = LinearAxes(catalog, 1024, catalog.on_host() ? "8" : "24");
  axes.push_back(
      IntegerAxis("prefetch", "layers that are gathered ahead of their use", 0, 64, "0,1,2"));
  return {.scenario = {.name = "Fsdp/Prefetch",
                       .axes = std::move(axes),
                       .excluded = std::bind_front(Excluded, catalog.machine),
                       .report = ReportSharded},
          .collective = "AllGather",
          .seed = 900,
          .runs = ShardedRuns};
}

}  // namespace

Family FsdpPrefetch() {
  using enum Better;
  return {.name = "Fsdp",
          .about = "A step of sharded layers, each gathered ahead of its use.",
          .lead = {"speedup", "time", "sequential_ms", "pct_of_bound", "exposed_comm_ms",
                   "unsharded_bytes"},
          .counters = {{"unsharded_bytes", "B", kLower, Range::kNotNegative, "unsharded",
                        "memory for whole layers: gathered weights, and gradients in flight"}},
          .scenarios = [](const Catalog& catalog) {
            return OverTransports(catalog, {Prefetched(catalog)});
          }};
}

}  // namespace overlapbench::families
