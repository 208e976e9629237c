// Decode: what does a communication of some kilobytes cost in a step of inference, launched one by
// one and as one graph?
//
// A decode step takes one new token of each sequence of a batch through the layers of a model. Its
// products are small and bound by the weights that they read, its attention by the cache of earlier
// keys and values (kernels/cache_attention.h), and each sum over the ranks moves 8 KiB for one
// token of Llama 3 8B. So latencies and launches decide.
//
// Layer and Step are tensor-parallel layers, with a sum after attention and one after the
// feed-forward layer; Step has several layers. With `batches` 2, half of the batch computes while
// the other half communicates (two-batch overlap):
//
//   batches:1   lane   attention   sum   feed-forward   sum    …
//   batches:2   comp   attention a   attention b   feed-forward a   feed-forward b …
//               comm                 sum a         sum b            sum a
//
// Experts is a layer of a mixture of experts (benchmarks/moe_step.h). With `beside:dispatch`, the
// dense product, which stands in for a shared expert, runs beside the dispatch of the same batch
// (single-batch overlap); with `beside:none`, before it:
//
//   comp   permute   dense      experts             sum
//   comm             dispatch             combine
//
// The runs of a row have the same steps:
//
//   "launched"        one by one, without the gate: as a host launches them that is not ahead
//   "queued"          one by one, behind the gate: as if launches took no time
//   "replayed"        as one graph, without the gate
//   "computation"     C: as one graph, behind the gate, like the next three
//   "communication"   M
//   "plain"           one step after the other, all tokens at once; only if it differs from T
//   "graph"           T: the row's own
//
// The host's part in "launched" and "replayed" varies more than the device's; their counters have
// intervals, and the row's state does not depend on it. NCCL's communicators are non-blocking, so
// that a rank that is gone ends their calls, which costs the host more than a blocking call;
// nccl_sym's are blocking.
//
// A graph's result must be that of launches, bit for bit. A residual's factor, which is dropout's
// mask in training, is a constant here.
#include <fmt/core.h>

#include <algorithm>
#include <functional>
#include <utility>

#include "benchmarks/block_schedule.h"
#include "benchmarks/moe_step.h"
#include "fixtures/statistics.h"
#include "kernels/attention.h"
#include "kernels/block_half.h"
#include "kernels/cache_attention.h"

namespace overlapbench::families {
namespace {

constexpr std::uint32_t kSeed = 1U << 27;
constexpr std::uint32_t kHalvesApart = 1U << 22;
constexpr std::uint32_t kCacheApart = 1U << 21;
constexpr std::size_t kStepsOfP99 = 100;  // of a row: with fewer, the percentile is the maximum

// ---- Works

Work Attend(const TensorWorks& works, const BlockHalf& half, const std::string& name,
            long context) {
  const TensorShape& results = half.activated->shape();
  const CacheAttention attention{
      .queries = half.widened,
      .cache = works.Own(works.Shape(results.rows * context, 2 * results.columns)),
      .results = half.activated,
      .seed = half.seed + kCacheApart};
  const Machine& machine = works.machine();
  return WorkOf(
      name + " attend", WorkClass::kCompute,
      {{attention.cache, attention.results}, CacheAttentionBytes(machine.device, results, context)},
      [machine, attention] { return MakeCacheAttention(machine, attention); }, true);
}

std::vector<Half> DecodeHalves(const TensorWorks& works, const Settings& settings) {
  const auto next_seed = [seed = kSeed]() mutable {
    return std::exchange(seed, seed + kHalvesApart);
  };
  const std::vector<BlockHalf> halves = MakeHalves(works, settings, next_seed);
  std::vector<Half> made;
  for (std::size_t i = 0; i < halves.size(); ++i) {
    const BlockHalf& half = halves[i];
    const std::string name = NameOf(half, i);
    made.push_back(ForwardOf(works, half, name, [&](HalfStep one) {
      if (half.attends && one == HalfStep::kActivate)
        return Attend(works, half, name, settings.Integer("context"));
      StepTensors tensors = TensorsOf(half, one);
      if (one == HalfStep::kResidual) tensors.all.push_back(half.mask);  // which no step makes
      return works.Step(
          name + " " + ToString(one), tensors,
          [machine = works.machine(), half, one] { return MakeHalfStep(machine, half, one); });
    }));
  }
  return made;
}

// The steps of all layers, in the order of a mixture of experts.
Schedule ExpertLayers(const MoeStep& step, bool is_plain) {
  Schedule schedule;
  const auto [comp, comm] = AddLanes(schedule, is_plain);
  std::vector<std::size_t> before;
  const auto add = [&](std::size_t lane, const Work& work) {
    before = {schedule.Add(lane, work, {.after = before})};
  };
  for (long layer = 0; layer < step.layers; ++layer) {
    add(comp, step.permute);
    if (is_plain) add(comp, step.dense);
    add(comm, step.dispatch);
    if (!is_plain) schedule.Add(comp, step.dense);
    add(comp, step.experts);
    add(comm, step.combine);
    add(comp, step.sum);
  }
  return schedule;
}

// ---- Runs

std::vector<Run> DecodeRuns(const Schedule& plain, const Schedule& own) {
  using enum WorkClass;
  std::vector<Run> runs = {
      {.name = "launched", .schedule = own, .gated = false},
      {.name = "queued", .schedule = own, .is_verified = false},
      {.name = "replayed", .schedule = own, .gated = false, .as_graph = true, .is_verified = false},
      {.name = "computation",
       .schedule = own.Only({kCompute}),
       .as_graph = true,
       .is_verified = false},
      {.name = "communication",
       .schedule = own.Only({kComm}),
       .as_graph = true,
       .is_verified = false}};
  if (own.lanes().size() > 1)
    runs.push_back({.name = "plain", .schedule = plain, .as_graph = true, .is_verified = false});
  runs.push_back({.name = "graph", .schedule = own, .as_graph = true});
  return runs;
}

std::vector<Run> LayerRuns(const TensorWorks& works, const Settings& settings) {
  const std::vector<Half> halves = DecodeHalves(works, settings);
  const long batches = settings.Integer("batches");
  const Schedule plain = PlainForm(halves);
  return DecodeRuns(plain, batches == 1 ? plain : PatternForm(halves, batches));
}

std::vector<Run> ExpertRuns(const TensorWorks& works, const Settings& settings) {
  const MoeStep step(works, settings, 1, "");
  return DecodeRuns(ExpertLayers(step, true),
                    ExpertLayers(step, settings.Text("beside") == "none"));
}

Remark ReportDecode(const Measurement& measurement, Counters& counters) {
  constexpr double kMicrosecondsInMillisecond = 1000;
  constexpr double kMillisecondsInSecond = 1000;
  constexpr double kLate = 0.99;
  const Series T = measurement.Total_ms();
  const Series C = measurement.Total_ms("computation");
  const Series M = measurement.Total_ms("communication");
  const Series launched = measurement.Total_ms("launched");
  const Settings& settings = measurement.settings();
  const double us_each =
      kMicrosecondsInMillisecond / static_cast<double>(settings.Integer("layers"));
  Report(counters, "layer_us", us_each * T);
  Report(counters, "launched_layer_us", us_each * launched);
  Report(counters, "comp_ms", C);
  Report(counters, "comm_ms", M);
  Report(counters, "exposed_comm_ms", T - C);
  Report(counters, "hidden_comm", (C + M - T) / M);
  Report(counters, "launch_share", (launched - measurement.Total_ms("queued")) / launched);
  Report(counters, "graph_gain", launched / measurement.Total_ms("replayed"));
  if (measurement.Has("plain")) {
    const Series plain = measurement.Total_ms("plain");
    Report(counters, "sequential_ms", plain);
    Report(counters, "speedup", plain / T);
  }
  counters["step_p50_us"] = kMicrosecondsInMillisecond * T.median();
  if (T.values().size() >= kStepsOfP99)
    counters["step_p99_us"] = kMicrosecondsInMillisecond * Quantile(T.values(), kLate);
  const long ranks_with_tokens = settings.Has("experts") ? measurement.ranks() : 1;
  Report(counters, "tokens_per_s",
         kMillisecondsInSecond *
             static_cast<double>(settings.Integer("tokens") * ranks_with_tokens) / T);
  const bool identical = measurement.Identical("launched", "graph");
  counters["identical"] = identical ? 1 : 0;
  return identical ? Remark{} : Remark::Invalid("the graph's result is not that of its launches");
}

// ---- Scenarios

std::string ExcludedLayers(const Machine& machine, const Settings& settings) {
  const long tokens = settings.Integer("tokens");
  const long batches = settings.Integer("batches");
  if (std::string why = ExcludedModel(settings, machine.ranks.size()); !why.empty()) return why;
  if (tokens % batches != 0) return "tokens must be a multiple of batches";
  return ExcludedTransport(machine, {Operation::kAllReduce}, settings,
                           tokens / batches * ModelOf(settings).hidden, "out");
}

// What a form of the family measures by default.
struct Defaults {
  const char* name;
  const char* layers;  // on GPUs
  const char* tokens;
  const char* batches;
  std::vector<std::string> on_gpus;
};

TrainingForm Layers(const Catalog& catalog, const Defaults& defaults) {
  const bool host = catalog.on_host();
  std::vector<Axis> axes = ModelAxes(catalog, "llama8b", {"hidden", "ffn", "heads"});
  AppendAxes(axes,
             {IntegerAxis("layers", "transformer layers", 1, 128, defaults.layers),
              IntegerAxis("tokens", "sequences in the batch, with one new token each", 1, 4096,
                          host ? "1,16" : defaults.tokens),
              IntegerAxis("context", "earlier tokens of a sequence, in the cache", 1, 1 << 20,
                          host ? "64" : "1024"),
              IntegerAxis("batches", "into which the batch is cut", 1, 16, defaults.batches)});
  return {.scenario = {.name = defaults.name,
                       .axes = std::move(axes),
                       .least_groups = kStepsOfP99,
                       .excluded = std::bind_front(ExcludedLayers, catalog.machine),
                       .report = ReportDecode},
          .collective = "AllReduce",
          .seed = kSeed,
          .runs = LayerRuns,
          .on_gpus = defaults.on_gpus};
}

TrainingForm Experts(const Catalog& catalog) {
  const bool host = catalog.on_host();
  return {.scenario = {.name = "Decode/Experts",
                       .axes = {IntegerAxis("layers", "equal layers", 1, 128, "1"),
                                IntegerAxis("hidden", "elements of a token, a multiple of 16", 16,
                                            1 << 16, host ? "128" : "4096"),
                                IntegerAxis("tokens", "of one rank", 1, 4096, host ? "16" : "64"),
                                InUnitsOf(catalog.machine.ranks.size(),
                                          IntegerAxis("experts", "of all ranks together", 1, 4096,
                                                      host ? "4" : "8")),
                                IntegerAxis("topk", "experts of a token", 1, 64, "2"),
                                IntegerAxis(
                                    "skew",
                                    "percent of the tokens whose first expert is the popular one",
                                    0, 100, "0", "0"),
                                ChoiceAxis("products", "of the experts: each a call, or all in one",
                                           {"each", "grouped"}, "each", "each"),
                                ChoiceAxis("beside", "what runs beside the dispatch",
                                           {"none", "dispatch"}, "none,dispatch")},
                       .least_groups = kStepsOfP99,
                       .excluded = std::bind_front(ExcludedMoe, catalog.machine),
                       .report = ReportDecode},
          .collective = "AllToAll",
          .seed = 1300,
          .runs = ExpertRuns,
          .on_gpus = {"nccl", "copy", "sm_store"}};
}

std::vector<Scenario> Scenarios(const Catalog& catalog) {
  std::vector<Defaults> layers = {
      {"Decode/Layer", "1", "1,16,256", "1,2", {"nccl", "copy", "sm_store"}},
      {"Decode/Layer", "1", "16", "1", {"nccl_sym", "sm_load", "sm_bulk"}},
      {"Decode/Step", "4", "1,64", "1,2", {"nccl", "sm_store"}}};
  if (catalog.on_host()) layers.erase(layers.begin() + 1);  // the same rows once more
  std::vector<TrainingForm> forms;
  for (const Defaults& defaults : layers) forms.push_back(Layers(catalog, defaults));
  forms.push_back(Experts(catalog));
  return OverTransports(catalog, forms);
}

}  // namespace

Family Decode() {
  using enum Better;
  return {
      .name = "Decode",
      .about = "Steps of inference on few tokens, launched one by one and as one graph.",
      .lead = {"layer_us", "time", "exposed_comm_ms", "graph_gain", "launch_share", "step_p99_us",
               "tokens_per_s", "speedup"},
      .counters =
          {{"layer_us", "us", kLower, Range::kPositive, "layer", "T / layers, as one graph", true},
           {"launched_layer_us", "us", kLower, Range::kPositive, "launched layer",
            "the same, launched one by one, the launches' time included"},
           {"launch_share", "", kLower, Range::kSigned, "launch share",
            "share of the time one by one in which GPUs wait for launches: 1 - time behind the "
            "gate / time without it"},
           {"graph_gain", "", kHigher, Range::kPositive, "graph gain",
            "time launched one by one / time as a graph, both without the gate"},
           {"step_p50_us", "us", kLower, Range::kPositive, "p50", "median of T over the steps"},
           {"step_p99_us", "us", kLower, Range::kPositive, "p99",
            "99th percentile of T over the steps, if at least 100 were sampled"}},
      .scenarios = Scenarios};
}

}  // namespace overlapbench::families
