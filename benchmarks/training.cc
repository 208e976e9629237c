#include "benchmarks/training.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <set>
#include <utility>

#include "comm/collectives.h"
#include "comm/transport.h"

namespace overlapbench {
namespace {

constexpr const char* kComputation = "computation";
constexpr const char* kCommunication = "communication";
constexpr const char* kChunks = "chunks";
constexpr const char* kSequential = "sequential";
constexpr const char* kPattern = "pattern";
constexpr const char* kSmTarget = "sm_target";
constexpr double kPercent = 100;

constexpr std::array<Model, 3> kModels = {
    {{"llama8b", 4096, 14336, 32}, {"llama70b", 8192, 28672, 64}, {"small", 256, 768, 2}}};

constexpr long kColumnsAtATime = 8;  // that kernels read

struct ModelSize {
  const char* axis;
  const char* help;
  long most;
  long Model::* value;
  long unit;  // a rank's share is a multiple of it; 0: ranks do not share the size
};
constexpr std::array<ModelSize, 3> kModelSizes = {
    {{"hidden", "elements of a token, a multiple of 16", 1L << 16, &Model::hidden, 0},
     {"ffn", "columns of the feed-forward layer on all ranks", 1L << 20, &Model::ffn,
      kColumnsAtATime},
     {"heads", "of attention on all ranks, of 128 columns each", 1L << 12, &Model::heads, 1}}};
constexpr std::string_view kOfModel = "model";

void AddUnlessEmpty(std::vector<Run>& runs, const char* name, Schedule schedule) {
  if (!schedule.steps().empty()) runs.push_back({.name = name, .schedule = std::move(schedule)});
}

std::vector<std::size_t> StepsOf(const Schedule& schedule, WorkClass work_class) {
  std::vector<std::size_t> steps;
  for (std::size_t i = 0; i < schedule.steps().size(); ++i)
    if (schedule.steps()[i].work->work_class == work_class) steps.push_back(i);
  return steps;
}

Series TimeOf(const Measurement& measurement, const char* run) {
  if (measurement.Has(run)) return measurement.Total_ms(run);
  return Series(std::vector<double>(measurement.groups().size()));
}

// The machine with the sm_target of these settings: a step's products are made on it.
Machine Planned(Machine machine, const Settings& settings) {
  if (settings.Has(kSmTarget)) machine.sm_target = static_cast<int>(settings.Integer(kSmTarget));
  return machine;
}

std::string Missing(const Catalog& catalog, const TrainingForm& form,
                    const std::string& transport) {
  if (catalog.machine.ranks.size() < 2) return "needs at least 2 ranks";
  std::string missing = catalog.workloads.Find(form.collective).missing;
  if (missing.empty() && (transport == "copy" || transport.starts_with("sm_")))
    missing = PeersUnavailable(catalog.machine);
  return missing.empty() ? form.scenario.missing : missing;
}

Scenario ScenarioOver(const Catalog& catalog, const TrainingForm& form,
                      const std::string& transport, const std::shared_ptr<Transports>& transports) {
  Scenario scenario = form.scenario;
  scenario.missing = Missing(catalog, form, transport);
  AppendAxes(scenario.axes, TransportAxes(catalog.machine));
  if (!catalog.on_host()) scenario.axes.push_back(SmTargetAxis());
  SetValues(scenario.axes, {{"transport", transport}});
  AppendAxes(scenario.axes, form.later_axes);
  scenario.runs = [machine = catalog.machine, transports, seed = form.seed,
                   runs = form.runs](const Settings& settings) {
    return runs({Planned(machine, settings),
                 std::make_shared<LaneCommunicator>(transports, settings), seed},
                settings);
  };
  AddCommPriority(catalog, scenario);
  return scenario;
}

void ReportEstimate(const Measurement& measurement, Counters& counters) {
  const auto [total_ms, efficiency, speedup] = EstimateClassically(
      TimeOf(measurement, kComputation).median(), TimeOf(measurement, kCommunication).median(),
      measurement.Overlappable_ms());
  const double measured_ms = measurement.Total_ms().median();
  counters["estimate_ms"] = total_ms;
  counters["estimate_efficiency"] = efficiency;
  counters["estimate_speedup"] = speedup;
  counters["estimate_error_pct"] = kPercent * (total_ms - measured_ms) / measured_ms;
}

}  // namespace

void AddCommPriority(const Catalog& catalog, Scenario& scenario) {
  scenario.prioritizes_comm = true;
  scenario.axes.push_back(PriorityAxis("comm", "of the communication's stream"));
  scenario.excluded = [device = &catalog.device,
                       excluded = std::move(scenario.excluded)](const Settings& settings) {
    std::string reason = settings.Has(kSmTarget) ? ExcludedSmTarget(device->info(), settings) : "";
    if (reason.empty()) reason = excluded(settings);
    return reason.empty() ? ExcludedPriority(*device, settings, "comm") : reason;
  };
}

std::vector<Axis> ModelAxes(const Catalog& catalog, std::string_view defaults_on_gpus,
                            const std::vector<std::string>& sizes) {
  std::vector<std::string> names;
  for (const Model& model : kModels) names.emplace_back(model.name);
  std::vector<Axis> axes = {ChoiceAxis("model", "whose sizes the layer has", names,
                                       catalog.on_host() ? "small" : defaults_on_gpus)};
  for (const auto& [axis, help, most, value, unit] : kModelSizes) {
    if (std::ranges::find(sizes, axis) == sizes.end()) continue;
    axes.push_back(OrWord(IntegerAxis(axis, help, 1, most, "1"), kOfModel, kOfModel, kOfModel));
    axes.back().unit = std::max(1L, unit * catalog.machine.ranks.size());
    axes.back().size = [value](const Settings& settings) { return ModelOf(settings).*value; };
  }
  return axes;
}

Model ModelOf(const Settings& settings) {
  Model model = *std::ranges::find(kModels, settings.Text("model"),
                                   [](const Model& one) { return std::string(one.name); });
  for (const auto& [axis, help, most, value, unit] : kModelSizes)
    if (settings.Has(axis) && settings.Text(axis) != kOfModel)
      model.*value = settings.Integer(axis);
  return model;
}

std::string ExcludedModel(const Settings& settings, int ranks) {
  const Model model = ModelOf(settings);
  if (model.hidden % 16 != 0) return "hidden must be a multiple of 16";
  if (model.ffn % ranks != 0)
    return fmt::format("ffn:{} must be a multiple of the {} ranks", model.ffn, ranks);
  if (model.ffn / ranks % kColumnsAtATime != 0)
    return fmt::format("ffn must give every rank a multiple of {} columns", kColumnsAtATime);
  if (settings.Has("heads") && model.heads % ranks != 0)
    return fmt::format("heads:{} must be a multiple of the {} ranks", model.heads, ranks);
  return "";
}

std::vector<Axis> LinearAxes(const Catalog& catalog, long most, std::string_view layers) {
  constexpr long kMultiple = 16;
  const bool host = catalog.on_host();
  return {IntegerAxis("layers", "equal linear layers", 1, most, layers),
          InUnitsOf(std::lcm(kMultiple, static_cast<long>(catalog.machine.ranks.size())),
                    IntegerAxis("width", "inputs and outputs of a layer, a multiple of 16",
                                kMultiple, 1 << 16, host ? "128" : "4096")),
          IntegerAxis("tokens", "tokens of one rank", 1, 1L << 24, host ? "128" : "4096")};
}

std::string ExcludedWidth(const Settings& settings) {
  return settings.Integer("width") % 16 == 0 ? "" : "width must be a multiple of 16";
}

long LayerCount(const Settings& settings) {
  return settings.Integer("width") * settings.Integer("width");
}

std::string ExcludedTransport(const Machine& machine, const std::vector<Operation>& operations,
                              const Settings& settings, long elements, const char* place,
                              bool own_stays) {
  const long bytes = elements * static_cast<long>(SizeOf(LayerElement(machine.device)));
  return NoTransport(machine, operations,
                     settings.With("bytes", std::to_string(bytes)).With("place", place), own_stays);
}

Work WorkOf(std::string name, WorkClass work_class, const WorkMemory& memory,
            std::function<std::unique_ptr<Workload>()> make, bool is_result) {
  WorkPlan plan{.name = std::move(name),
                .work_class = work_class,
                .footprint = {memory.own_bytes, 0},
                .make = std::move(make),
                .is_result = is_result};
  std::set<const void*> shared;
  for (const SharedTensor& tensor : memory.tensors)
    if (tensor != nullptr && shared.insert(tensor->memory()).second)
      plan.shared.push_back({tensor->memory(), tensor->shape().bytes()});
  return std::make_shared<const WorkPlan>(std::move(plan));
}

Work TensorWorks::Multiply(const std::string& name, std::vector<LinearProblem> problems,
                           bool is_result) const {
  WorkMemory memory{.own_bytes = ProductWorkspaceBytes(machine_.device)};
  for (LinearProblem& problem : problems) {
    problem.seed += seed_;
    memory.tensors.insert(memory.tensors.end(), {problem.a, problem.w, problem.added, problem.d});
  }
  return WorkOf(
      name, WorkClass::kCompute, memory,
      [machine = machine_, problems = std::move(problems)] {
        return MakeLinear(machine, problems);
      },
      is_result);
}

Work TensorWorks::Move(const std::string& name, const std::vector<TensorCall>& calls,
                       bool is_result, CallOrder order) const {
  WorkMemory memory;
  for (const TensorCall& call : calls)
    memory.tensors.insert(memory.tensors.end(), {call.send, call.receive});
  WorkPlan plan = *WorkOf(
      name, WorkClass::kComm, memory,
      [machine = machine_, communicator = communicator_, calls, seed = seed_, order] {
        return MakeTensorCollective(machine, communicator, calls, seed, order);
      },
      is_result);
  if (!calls.empty()) plan.collective = NameOf(calls.front().operation);  // one rank sends nothing
  return std::make_shared<const WorkPlan>(std::move(plan));
}

Work TensorWorks::Add(const std::string& name, BlockSum sum) const {
  sum.seed = seed_;
  return WorkOf(name, WorkClass::kCompute, {.tensors = {sum.own, sum.arrivals, sum.sums}},
                [machine = machine_, sum] { return MakeBlockSum(machine, sum); });
}

Work TensorWorks::Step(const std::string& name, const StepTensors& tensors,
                       std::function<std::unique_ptr<Workload>()> make) const {
  const std::size_t own_bytes = tensors.multiplies ? ProductWorkspaceBytes(machine_.device) : 0;
  return WorkOf(name, WorkClass::kCompute, {tensors.all, own_bytes}, std::move(make), true);
}

Work TensorWorks::Sum(const std::string& name, const SharedTensor& from,
                      const SharedTensor& to) const {
  return Move(name,
              {{.operation = Operation::kAllReduce,
                .send = from,
                .receive = to,
                .rows = from->shape().rows,
                .of_held = true}},
              true);
}

StepLanes AddLanes(Schedule& schedule, bool is_plain) {
  const std::size_t comp = schedule.AddLane({.name = is_plain ? "lane" : "comp"});
  return {comp, is_plain ? comp : schedule.AddLane({.name = "comm"})};
}

std::vector<Run> TrainingRuns(Schedule sequential, Schedule pattern) {
  using enum WorkClass;
  std::vector<Run> runs = WithSoloRuns({.name = kPattern, .schedule = std::move(pattern)});
  const Run own = std::move(runs.back());
  runs.pop_back();
  AddUnlessEmpty(runs, kComputation, sequential.Only({kCompute}));
  AddUnlessEmpty(runs, kCommunication, sequential.Only({kComm, kMemory}));
  AddUnlessEmpty(runs, kChunks, own.schedule.Only({kCompute}));
  // Where one lane computes, its run alone is that of the chunks.
  const auto is_computation = [&](const Run& run) {
    return !run.alone.empty() && runs.back().name == kChunks &&
           run.alone == StepsOf(own.schedule, kCompute);
  };
  if (const auto lane = std::ranges::find_if(runs, is_computation); lane != runs.end()) {
    runs.back().alone = std::move(lane->alone);
    runs.erase(lane);
  }
  runs.push_back({.name = kSequential, .schedule = std::move(sequential)});
  runs.push_back(own);
  return runs;
}

std::vector<Scenario> OverTransports(const Catalog& catalog,
                                     const std::vector<TrainingForm>& forms) {
  const auto transports = std::make_shared<Transports>(catalog.machine);
  std::vector<Scenario> scenarios;
  for (const TrainingForm& form : forms) {
    const auto names = catalog.on_host() ? std::vector<std::string>{"mpi"} : form.on_gpus;
    for (const std::string& name : names)
      scenarios.push_back(ScenarioOver(catalog, form, name, transports));
  }
  return scenarios;
}

std::vector<Counter> TrainingCounters() {
  using enum Better;
  return {
      {"chunking_cost_ms", "ms", kLower, Range::kSigned, "chunking",
       "time of the pattern's computation alone, minus the plain form's"},
      {"interference_ms", "ms", kLower, Range::kSigned, "interference",
       "T - bound: how much the sides slow each other down, and the cost of starting and ordering "
       "steps"},
      {"bubble_share", "", kLower, Range::kSigned, "bubble",
       "share of T in which a rank does not compute: 1 - its computation alone / T"},
      {"formula_bubble_share", "", kLower, Range::kNotNegative, "bubble by formula",
       "share of bubbles if transfers take no time: (p - 1) / (v m + p - 1) with p ranks, v stages "
       "on each, and m micro-batches"},
      {"in_flight", "count", kLower, Range::kPositive, "in flight",
       "largest number of passes through a stage whose activations a rank keeps at a time"},
      {"tokens_per_s", "1/s", kHigher, Range::kPositive, "tokens/s",
       "tokens per second on all ranks together, in steps that have tokens", true},
      {"memory_bytes", "B", kLower, Range::kNotNegative, "memory",
       "device memory that the pattern takes, on one rank"},
      {"estimate_ms", "ms", kLower, Range::kNotNegative, "estimate",
       "the classical estimate: C + max(0, M - overlappable computation)"},
      {"estimate_efficiency", "", kHigher, Range::kNotNegative, "estimated efficiency",
       "the classical estimate: min(M, overlappable computation) / M"},
      {"estimate_speedup", "", kHigher, Range::kNotNegative, "estimated speedup",
       "the classical estimate: (C + M) / estimate_ms"},
      {"estimate_error_pct", "%", kNeither, Range::kSigned, "estimate's error",
       "100 x (estimate - T) / T"},
  };
}

Remark ReportTraining(const Measurement& measurement, Counters& counters, double tokens,
                      Identity identity) {
  constexpr double kMsInSecond = 1000;
  const Series T = measurement.Total_ms();
  const Series C = TimeOf(measurement, kComputation);
  const Series sequential_ms = measurement.Total_ms(kSequential);
  const Series bound_ms = ReportBound(measurement, counters);
  Report(counters, "sequential_ms", sequential_ms);
  Report(counters, "speedup", sequential_ms / T);
  Report(counters, "exposed_comm_ms", T - C);
  const Series chunks_ms = TimeOf(measurement, kChunks);
  Report(counters, "chunking_cost_ms", chunks_ms - C);
  Report(counters, "bubble_share", (T - chunks_ms) / T);
  Report(counters, "interference_ms", T - bound_ms);
  if (tokens > 0) Report(counters, "tokens_per_s", kMsInSecond * tokens / T);
  counters["memory_bytes"] =
      static_cast<double>(FootprintOf(measurement.own().schedule.works()).device_bytes);
  ReportEstimate(measurement, counters);
  const bool identical = measurement.Identical(kSequential, kPattern);
  counters["identical"] = identical ? 1 : 0;
  return identical || identity == Identity::kReported
             ? Remark{}
             : Remark::Invalid("the result is not that of the sequential run");
}

void ReportHidden(const Measurement& measurement, Counters& counters) {
  const Series M = measurement.Total_ms(kCommunication);
  Report(counters, "hidden_comm", (measurement.Total_ms(kChunks) + M - measurement.Total_ms()) / M);
}

ClassicalEstimate EstimateClassically(double computation_ms, double communication_ms,
                                      double overlappable_ms) {
  const double hidden_ms = std::min(communication_ms, overlappable_ms);
  const double total_ms = computation_ms + communication_ms - hidden_ms;
  return {total_ms, communication_ms > 0 ? hidden_ms / communication_ms : 0,
          total_ms > 0 ? (computation_ms + communication_ms) / total_ms : 0};
}

}  // namespace overlapbench
