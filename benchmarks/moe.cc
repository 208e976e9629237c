// Moe/DispatchCombine: how much of a mixture of experts' communication is exposed, and which rank
// do the others wait for?
//
// A step has `layers` layers. In each, a rank's tokens pass through a dense product, which stands
// in for attention. Then copies of them are dispatched to the ranks of their `topk` experts and
// pass through these, and the results return and are summed. Copies for a rank's own experts stay
// in place (kernels/experts.h). With two micro-batches, the communication of one runs beside the
// computation of the other, as in DeepSeek-V3 (DeepSeek-AI, DeepSeek-V3 Technical Report, 2024):
//
//   comp   dense 1   dense 2      experts 1    experts 2   sum 1, dense 1   sum 2, dense 2 …
//   comm             dispatch 1   dispatch 2   combine 1   combine 2        dispatch 1 …
//
// Only the last combine is exposed. The plain form takes all tokens together, one step after the
// other. kernels/routing.h determines the destinations. With `skew`, the rank of the popular expert
// computes most, and the others wait for it in the combine.
//
// All layers have the same inputs and weights, and the dense product has separate inputs, so that
// the last layer's results can be checked; the steps wait for each other as in a model. If cuBLASLt
// chooses another kernel for fewer rows, the results differ from the plain form's in their last
// bits, which `identical` reports.
#include <fmt/core.h>

#include <functional>

#include "benchmarks/moe_step.h"

namespace overlapbench::families {
namespace {

Schedule ScheduleOf(const MoeStep& step, bool is_plain) {
  Schedule schedule;
  const auto [comp, comm] = AddLanes(schedule, is_plain);
  std::vector<std::size_t> at(step.microbatches);  // the last step of each micro-batch
  const auto add = [&](std::size_t lane, const Work& work, long microbatch, bool waits = true) {
    StepOptions options{.part = {microbatch, step.microbatches}};
    if (waits) options.after = {at[microbatch]};
    at[microbatch] = schedule.Add(lane, work, options);
  };
  for (long layer = 0; layer < step.layers; ++layer) {
    for (long i = 0; i < step.microbatches; ++i) {
      if (layer > 0) add(comp, step.sum, i);
      add(comp, step.dense, i, layer > 0);
      add(comp, step.permute, i);
      add(comm, step.dispatch, i);
    }
    for (long i = 0; i < step.microbatches; ++i) {
      add(comp, step.experts, i);
      add(comm, step.combine, i);
    }
  }
  for (long i = 0; i < step.microbatches; ++i) add(comp, step.sum, i);
  return schedule;
}

std::vector<Run> MoeRuns(const TensorWorks& works, const Settings& settings) {
  return TrainingRuns(
      ScheduleOf(MoeStep(works, settings, 1, " whole"), true),
      ScheduleOf(MoeStep(works, settings, settings.Integer("microbatches"), ""), false));
}

std::string Excluded(const Machine& machine, const Settings& settings) {
  if (settings.Integer("tokens") % settings.Integer("microbatches") != 0)
    return "tokens must be a multiple of microbatches";
  return ExcludedMoe(machine, settings);
}

Remark ReportMoe(const Machine& machine, const Measurement& measurement, Counters& counters) {
  constexpr double kPercent = 100;
  constexpr double kStraggles = 1.1;
  const Settings& settings = measurement.settings();
  const long microbatches = settings.Integer("microbatches");
  const int ranks = measurement.ranks();
  const bool is_same = microbatches == 1 || machine.device.backend() == Backend::kHost;
  Remark remark =
      ReportTraining(measurement, counters, static_cast<double>(ranks * settings.Integer("tokens")),
                     is_same ? Identity::kRequired : Identity::kReported);
  ReportHidden(measurement, counters);
  const Routing routing(MoeRouting(machine, settings, microbatches));
  // The copies that a rank sends; on average, its experts receive as many.
  const auto copies = static_cast<double>(settings.Integer("tokens") * settings.Integer("topk"));
  const int straggler = routing.straggler();
  const double load = static_cast<double>(routing.LoadOf(straggler)) / copies;
  counters["straggler_rank"] = straggler;
  counters["straggler_load"] = load;
  counters["padding_pct"] = kPercent * (1 - copies / static_cast<double>(routing.rows()));
  if (remark.state == RowState::kOk && load > kStraggles)
    return Remark::Finding(fmt::format(
        "rank {} straggles: its experts get {:.2f} times the mean load", straggler, load));
  return remark;
}

TrainingForm DispatchCombine(const Catalog& catalog) {
  const bool host = catalog.on_host();
  const Machine& machine = catalog.machine;
  return {
      .scenario =
          {.name = "Moe/DispatchCombine",
           .axes =
               {IntegerAxis("layers", "equal layers", 1, 256, host ? "2" : "4"),
                IntegerAxis("hidden", "elements of a token, a multiple of 16", 16, 1 << 16,
                            host ? "128" : "4096"),
                IntegerAxis("tokens", "tokens of one rank", 1, 1L << 22, host ? "128" : "16384"),
                InUnitsOf(
                    catalog.machine.ranks.size(),
                    IntegerAxis("experts", "of all ranks together", 1, 4096, host ? "4" : "8")),
                IntegerAxis("topk", "experts of a token", 1, 64, "2"),
                IntegerAxis("skew", "percent of the tokens whose first expert is the popular one",
                            0, 100, "0,50"),
                IntegerAxis("microbatches", "into which the tokens are cut", 1, 32, "1,2"),
                ChoiceAxis("products",
                           "of the experts: each a call, or all in one, as production runs them",
                           {"each", "grouped"}, "each", "each")},
           .excluded = std::bind_front(Excluded, machine),
           .report = std::bind_front(ReportMoe, machine)},
      .collective = "AllToAll",
      .seed = 1300,
      .runs = MoeRuns};
}

}  // namespace

Family MoeDispatchCombine() {
  using enum Better;
  return {
      .name = "Moe",
      .about = "Layers of a mixture of experts, whose micro-batches hide each other's exchange.",
      .lead = {"hidden_comm", "time", "speedup", "pct_of_bound", "exposed_comm_ms",
               "straggler_load"},
      .counters = {{"straggler_rank", "count", kNeither, Range::kNotNegative, "straggler",
                    "the rank whose experts get the most tokens"},
                   {"straggler_load", "", kNeither, Range::kPositive, "straggler's load",
                    "tokens of its experts / mean of all ranks"},
                   {"padding_pct", "%", kNeither, Range::kNotNegative, "padding",
                    "share of the dispatched rows that hold no token"}},
      .scenarios = [](const Catalog& catalog) {
        return OverTransports(catalog, {DispatchCombine(catalog)});
      }};
}

}  // namespace overlapbench::families
