// Pp/GPipe, Pp/OneFOneB and Pp/Interleaved: a model split into stages over the ranks.
//
// A row's pattern is the schedule of all ranks. Each rank has a lane for its computation and one
// for each neighbour and direction that it sends to or receives from:
//
//   rank 0 compute               0F0  0F1       0B0 ...
//   rank 0 activations even        send  send
//   rank 1 activations even        receive  receive
//   rank 1 compute                    1F0  1B0  1F1 ...
//
// pipeline_order.h gives the order of each rank. A receive waits for what its sender computes.
// NCCL's receive holds SMs while it waits, so it starts beside the action before the one that needs
// it, as it would be posted in practice; by copy engine, it holds none. The plain form is every
// micro-batch through all stages and back before the next one starts, with one lane for each rank.
//
// The third word of a name says what a stage computes. With `Delay`, the times are known, and the
// share of bubbles must match the formula; with a matrix product, interference and transfers add to
// it. A rank has the same work whatever its number of stages: each of v stages is 1/v of it.
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <functional>
#include <map>

#include "benchmarks/pipeline_order.h"
#include "benchmarks/training.h"

namespace overlapbench::families {
namespace {

constexpr std::string_view kOneForEach = "ranks";  // or `virtual` of them

// ---- What a stage computes

struct Layers {
  const WorkloadSpec* spec = nullptr;
  // The amount for one of a rank's `chunks` stages.
  struct Amount {
    Settings settings;
    long times = 1;
  };
  std::array<Amount, 2> (*of_stage)(const Settings&, long chunks) = nullptr;
  std::vector<Axis> axes = {};
  Values values = {};  // defaults of the scenario's axes
  std::string (*excluded)(const Settings&, long chunks) = nullptr;
  const char* tokens_axis = nullptr;  // of a micro-batch; nullptr: it has none
};

// Delays of known length.
Layers Delays(const Catalog& catalog) {
  constexpr long kMost_us = 60'000'000;
  return {.spec = &catalog.workloads.Find("Delay"),
          .of_stage =
              [](const Settings& settings, long chunks) {
                const auto delay = [&](const char* axis) {
                  const long stage_us = settings.Integer(axis) / chunks;
                  return Layers::Amount{settings.With("delay_us", std::to_string(stage_us)), 1};
                };
                return std::array{delay("forward_us"), delay("backward_us")};
              },
          .axes = {IntegerAxis("forward_us",
                               "microseconds of forward computation per rank and micro-batch", 1,
                               kMost_us, "1500"),
                   IntegerAxis("backward_us",
                               "microseconds of backward computation per rank and micro-batch", 1,
                               kMost_us, "3000")},
          .excluded =
              [](const Settings& settings, long chunks) {
                const bool divide = settings.Integer("forward_us") % chunks == 0 &&
                                    settings.Integer("backward_us") % chunks == 0;
                return std::string(divide ? ""
                                          : "forward_us and backward_us must be multiples of "
                                            "virtual");
              }};
}

// Linear layers: a product forward, and two backward, for the inputs' and the weights' gradients.
Layers Products(const Catalog& catalog) {
  Layers layers{.spec = &catalog.workloads.Find(catalog.on_host() ? "Gemm" : "CublasGemm"),
                .of_stage =
                    [](const Settings& settings, long chunks) {
                      const long products = settings.Integer("layers") / chunks;
                      return std::array{Layers::Amount{settings, products},
                                        Layers::Amount{settings, 2 * products}};
                    },
                .excluded =
                    [](const Settings& settings, long chunks) {
                      return std::string(settings.Integer("layers") % chunks == 0
                                             ? ""
                                             : "layers must be a multiple of virtual");
                    },
                .tokens_axis = "n"};
  layers.axes = layers.spec->axes;
  layers.axes.push_back(IntegerAxis("layers", "layers of a rank", 1, 64, "2"));
  if (catalog.on_host())
    layers.values = {{"n", "64"}, {"grid", "4x4"}, {"work", "full"}};
  else  // a micro-batch of 4096 tokens, whose activation in bf16 has as many bytes
    layers.values = {{"n", "4096"}, {"layers", "8"}, {"bytes", "32M"}, {"transport", "nccl,copy"}};
  return layers;
}

// ---- Schedules

struct PipelineWorks {
  std::map<Pass, Work> compute;
  std::map<std::pair<Pass, LinkSet>, Work> transfers;
};

const char* NameOf(Pass pass, bool of_data) {
  if (of_data) return pass == Pass::kForward ? "activations" : "gradients";
  return pass == Pass::kForward ? "forward" : "backward";
}

PipelineWorks WorksOf(const Machine& machine, const PipelineShape& shape, const Layers& layers,
                      const std::shared_ptr<Transports>& transports, const Settings& settings) {
  const long elements = settings.Integer("bytes") / static_cast<long>(sizeof(float));
  const auto made = std::make_shared<std::weak_ptr<PipelineStages>>();
  const auto stages = [=] {
    std::shared_ptr<PipelineStages> all = made->lock();
    if (all == nullptr) *made = all = std::make_shared<PipelineStages>(machine, shape, elements);
    return all;
  };
  PipelineWorks works;
  const auto of_stage = layers.of_stage(settings, shape.chunks);
  for (const Pass pass : {Pass::kForward, Pass::kBackward}) {
    const auto& [own, times] = of_stage.at(static_cast<std::size_t>(pass));
    WorkPlan compute{.name = NameOf(pass, false), .footprint = layers.spec->footprint(own)};
    if (pass == Pass::kForward)
      compute.footprint.device_bytes += PipelineStages::FootprintOf(shape, elements).device_bytes;
    compute.make = [stages, pass, make = layers.spec->make, own, times] {
      return PipelineStages::MakeCompute(stages(), pass, [&] { return make(own); }, times);
    };
    works.compute[pass] = std::make_shared<const WorkPlan>(std::move(compute));
    for (const LinkSet set : {LinkSet::kEven, LinkSet::kOdd, LinkSet::kLast}) {
      WorkPlan transfer{.name = fmt::format("{} {}", NameOf(pass, true), ToString(set)),
                        .work_class = WorkClass::kComm,
                        .collective = "SendRecv"};
      transfer.make = [stages, pass, set, transports, settings] {
        return PipelineStages::MakeTransfer(stages(), pass, set, transports, settings);
      };
      works.transfers[{pass, set}] = std::make_shared<const WorkPlan>(std::move(transfer));
    }
  }
  return works;
}

// Adds actions to a schedule, and the transfers that they need.
class PipelineSchedule {
 public:
  // With `one_lane` a rank does one thing at a time.
  PipelineSchedule(const PipelineShape& shape, const PipelineWorks& works, bool one_lane)
      : shape_(shape), works_(works), one_lane_(one_lane), computed_(shape.ranks) {}

  Schedule Of(const Actions& actions) {
    for (const Action& action : actions) Add(action);
    return std::move(schedule_);
  }

 private:
  void Add(const Action& action) {
    const int rank = shape_.RankOf(action.stage);
    const int before = Before(action.pass, action.stage);
    std::vector<std::size_t> after;
    if (before == shape_.stages())  // the last stage's activation is its gradient
      after = {steps_.at({Pass::kForward, action.stage, action.microbatch})};
    else if (before >= 0)
      after = {Transfer(action, steps_.at({action.pass, before, action.microbatch}))};
    const Work& work = works_.compute.at(action.pass);
    const std::size_t step = schedule_.Add(Lane(rank, "compute"), work,
                                           {.part = shape_.PartOf(action.stage, action.microbatch),
                                            .after = std::move(after),
                                            .name = ToString(Actions{action})});
    steps_[action] = step;
    computed_[rank].push_back(step);
  }

  // Sends the previous stage's result, and returns the step that receives it. Both are added
  // together, so that a host that waits for its peer waits for no other step.
  std::size_t Transfer(const Action& to, std::size_t made) {
    const int sender = Before(to.pass, to.stage);
    const int link = shape_.RankOf(std::min(sender, to.stage));
    const Work& work = works_.transfers.at({to.pass, LinkSetOf(shape_, link)});
    const Part part = shape_.PartOf(sender, to.microbatch);
    const int rank = shape_.RankOf(to.stage);
    std::vector<std::size_t> after = {made};
    const std::vector<std::size_t>& own = computed_[rank];
    if (own.size() >= 2) after.push_back(own[own.size() - 2]);
    const std::size_t send = schedule_.Add(Lane(shape_.RankOf(sender), work->name), work,
                                           {.part = part, .after = {made}});
    return schedule_.Add(Lane(rank, work->name), work,
                         {.part = part, .after = std::move(after), .other_end = send});
  }

  std::size_t Lane(int rank, const std::string& what) {
    const std::string name =
        one_lane_ ? fmt::format("rank {}", rank) : fmt::format("rank {} {}", rank, what);
    const auto [lane, is_new] = lanes_.try_emplace(name);
    if (is_new) lane->second = schedule_.AddLane({.name = name, .rank = rank});
    return lane->second;
  }

  const PipelineShape& shape_;
  const PipelineWorks& works_;
  bool one_lane_;
  Schedule schedule_;
  std::map<std::string, std::size_t> lanes_;
  std::map<Action, std::size_t> steps_;
  std::vector<std::vector<std::size_t>> computed_;  // the steps of each rank so far
};

// ---- Rows

PipelineShape ShapeOf(const Machine& machine, const Settings& settings) {
  return {.ranks = machine.ranks.size(),
          .chunks = settings.Has("virtual") ? static_cast<int>(settings.Integer("virtual")) : 1,
          .microbatches = static_cast<int>(settings.Integer("microbatches"))};
}

// A row has as many stages as fit on the ranks.
std::string ExcludedStages(const PipelineShape& shape, const Settings& settings) {
  const std::string& stages = settings.Text("stages");
  if (stages == kOneForEach || stages == std::to_string(shape.stages())) return "";
  const std::string each = settings.Has("virtual")
                               ? fmt::format("virtual:{} on each of {}", shape.chunks, shape.ranks)
                               : fmt::format("one on each of {}", shape.ranks);
  return fmt::format("stages must be {} ({} ranks), not {}", shape.stages(), each, stages);
}

std::string Excluded(const Machine& machine, const Layers& layers, const Settings& settings) {
  const PipelineShape shape = ShapeOf(machine, settings);
  if (std::string why = ExcludedStages(shape, settings); !why.empty()) return why;
  if (shape.chunks > 1 && shape.microbatches % shape.ranks != 0)
    return fmt::format("microbatches must be a multiple of the {} ranks", shape.ranks);
  if (settings.Integer("bytes") % static_cast<long>(sizeof(float)) != 0)
    return "bytes must be a multiple of 4";
  std::string reason = layers.excluded(settings, shape.chunks);
  if (reason.empty() && layers.spec->excluded)
    reason = layers.spec->excluded(layers.of_stage(settings, shape.chunks).front().settings);
  return reason.empty() ? NoTransport(machine, {Operation::kSend}, settings) : reason;
}

// `tokens`: of a micro-batch. Each token passes through all ranks.
Remark ReportPipeline(PipelineOrder order, const PipelineShape& shape, long tokens,
                      const Measurement& measurement, Counters& counters) {
  Remark remark = ReportTraining(
      measurement, counters, static_cast<double>(shape.microbatches) * static_cast<double>(tokens));
  counters["formula_bubble_share"] = BubbleShare(shape);
  counters["in_flight"] = MostInFlight(ActionTable(order, shape).front());
  return remark;
}

Scenario ScenarioOf(const Catalog& catalog, const std::string& family, PipelineOrder order,
                    const Layers& layers, const std::shared_ptr<Transports>& transports) {
  const Machine& machine = catalog.machine;
  Scenario scenario{.name = fmt::format("{}/{}", family, layers.spec->name)};
  scenario.missing = layers.spec->missing;
  if (machine.ranks.size() < 2)
    scenario.missing = "a pipeline needs at least 2 ranks, has 1 (--ranks 2)";
  else if (!catalog.on_host() && !NcclUnavailable().empty())
    scenario.missing = NcclUnavailable();
  scenario.axes = {IntegerAxis("microbatches", "micro-batches of a step", 2, 128, "4,8")};
  if (order == PipelineOrder::kInterleaved) {
    scenario.axes.back().unit = machine.ranks.size();
    scenario.axes.push_back(IntegerAxis("virtual", "stages of each rank", 2, 8, "2"));
  }
  scenario.axes.push_back(OrWord(IntegerAxis("stages", "of the model, on all ranks", 1, 4096, "1"),
                                 kOneForEach, kOneForEach, kOneForEach));
  AppendAxes(scenario.axes, layers.axes);
  scenario.axes.push_back(BytesAxis("bytes", "of a micro-batch's activation, float32",
                                    catalog.on_host() ? "16K" : "1M"));
  AppendAxes(scenario.axes, TransportAxes(machine));
  SetValues(scenario.axes, layers.values);
  scenario.excluded = std::bind_front(Excluded, machine, layers);
  scenario.runs = [machine, order, layers, transports](const Settings& settings) {
    const PipelineShape shape = ShapeOf(machine, settings);
    const PipelineWorks works = WorksOf(machine, shape, layers, transports, settings);
    return TrainingRuns(
        PipelineSchedule(shape, works, true).Of(OneAfterTheOther(shape)),
        PipelineSchedule(shape, works, false).Of(Play(ActionTable(order, shape), shape)));
  };
  scenario.report = [machine, order, tokens_axis = layers.tokens_axis](
                        const Measurement& measurement, Counters& counters) {
    const Settings& settings = measurement.settings();
    const long tokens = tokens_axis == nullptr ? 0 : settings.Integer(tokens_axis);
    return ReportPipeline(order, ShapeOf(machine, settings), tokens, measurement, counters);
  };
  return scenario;
}

const char* FamilyName(PipelineOrder order) {
  constexpr std::array kNames = {"Pp/GPipe", "Pp/OneFOneB", "Pp/Interleaved"};
  return kNames.at(static_cast<std::size_t>(order));
}

std::vector<Scenario> ScenariosOf(const Catalog& catalog, PipelineOrder order) {
  const auto transports = std::make_shared<Transports>(catalog.machine);
  std::vector<Scenario> scenarios;
  for (const Layers& layers : {Delays(catalog), Products(catalog)}) {
    scenarios.push_back(ScenarioOf(catalog, FamilyName(order), order, layers, transports));
    AddCommPriority(catalog, scenarios.back());
  }
  return scenarios;
}

Family FamilyOf(PipelineOrder order, const char* about,
                std::vector<Scenario> (*scenarios)(const Catalog&)) {
  return {.name = FamilyName(order),
          .about = about,
          .lead = {"time", "speedup", "bubble_share", "formula_bubble_share", "in_flight",
                   "pct_of_bound"},
          .scenarios = scenarios};
}

}  // namespace

Family PpGPipe() {
  return FamilyOf(
      PipelineOrder::kGPipe, "A pipeline of stages: all micro-batches forward, then all backward.",
      [](const Catalog& catalog) { return ScenariosOf(catalog, PipelineOrder::kGPipe); });
}

Family PpOneFOneB() {
  return FamilyOf(
      PipelineOrder::kOneFOneB,
      "A pipeline of stages: one micro-batch forward and one backward in turn.",
      [](const Catalog& catalog) { return ScenariosOf(catalog, PipelineOrder::kOneFOneB); });
}

Family PpInterleaved() {
  return FamilyOf(
      PipelineOrder::kInterleaved,
      "A pipeline with several stages on each rank: the same in turn, fewer bubbles.",
      [](const Catalog& catalog) { return ScenariosOf(catalog, PipelineOrder::kInterleaved); });
}

}  // namespace overlapbench::families
