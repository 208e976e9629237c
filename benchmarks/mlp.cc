// Mlp: training a small network, where launches cost as much as the work, and a large one.
//
// A row is compared with its plainer forms, sampled in the same group: call:graph with a loop of
// launches, gelu:epilogue with GELU as a separate kernel. No run is gated: a graph mostly saves the
// host's launch time, which a gate would hide.
//
// Time against steps and against layers gives two lines. Their slopes are the cost of a step and of
// a layer, their intercepts the one-time cost. tools/overlapbench/statistics/fit.py fits them.
#include <functional>

#include "benchmarks/scenario.h"

namespace overlapbench::families {
namespace {

// A network that differs from the row's in one axis, and how the row compares itself with it.
struct PlainForm {
  const char* run;
  const char* axis;
  const char* value;
  const char* time;
  const char* speedup;
};
constexpr PlainForm kPlainForms[] = {
    {"MlpLoop", "call", "loop", "loop_ms", "graph_speedup"},
    {"MlpKernel", "gelu", "kernel", "kernel_ms", "epilogue_speedup"}};

std::vector<Run> TrainingRuns(const WorkloadSpec& mlp, const Settings& settings) {
  std::vector<Run> runs;
  for (const PlainForm& form : kPlainForms) {
    if (settings.Text(form.axis) == form.value) continue;
    runs.push_back(SoloRun(MakeWork(mlp, settings.With(form.axis, form.value), form.run), false));
  }
  runs.push_back(SoloRun(MakeWork(mlp, settings), false));
  return runs;
}

Remark ReportTraining(const Measurement& measurement, Counters& counters) {
  ReportOwnRates(measurement, counters);
  const Series train_ms = measurement.Total_ms();
  Report(counters, "train_ms", train_ms);
  for (const PlainForm& form : kPlainForms) {
    if (!measurement.Has(form.run)) continue;
    const Series plain_ms = measurement.Total_ms(form.run);
    Report(counters, form.time, plain_ms);
    Report(counters, form.speedup, plain_ms / train_ms);
  }
  return {};
}

std::vector<Scenario> Scenarios(const Catalog& catalog) {
  std::vector<Scenario> scenarios;
  const WorkloadSpec& mlp = catalog.workloads.Find("Mlp");
  const Values along_steps = {{"steps", "2,3,4,5"}};
  const Values along_layers = {{"layers", "2,3,4,5"}};
  const Values fills_the_gpu = {{"dim", "8192"}, {"batch", "8192"}, {"steps", "1"}};
  for (const Values& values : {along_steps, along_layers, fills_the_gpu}) {
    Scenario training = ScenarioOf("Mlp/Training", {&mlp}, values);
    training.runs = std::bind_front(TrainingRuns, std::cref(mlp));
    training.report = ReportTraining;
    scenarios.push_back(training);
  }
  return scenarios;
}

}  // namespace

Family Mlp() {
  using enum Better;
  Family family{.name = "Mlp",
                .about =
                    "Training a network: launches against a recorded graph, a kernel of its "
                    "own against a fused epilogue.",
                .lead = {"graph_speedup", "epilogue_speedup", "train_ms", "loop_ms", "kernel_ms"}};
  family.counters = {
      {"train_ms", "ms", kLower, Range::kPositive, "training", "T: all steps"},
      {"loop_ms", "ms", kLower, Range::kPositive, "loop", "the same by a loop of launches"},
      {"kernel_ms", "ms", kLower, Range::kPositive, "kernel",
       "the same with GELU as a kernel of its own"},
      {"graph_speedup", "", kHigher, Range::kPositive, "graph speedup", "loop / T"},
      {"epilogue_speedup", "", kHigher, Range::kPositive, "epilogue speedup", "kernel / T"},
  };
  family.scenarios = &Scenarios;
  return family;
}

}  // namespace overlapbench::families
