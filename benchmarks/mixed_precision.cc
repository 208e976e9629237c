// MixedPrecision: how much of the update of float32 master weights does a step hide?
//
// Layers compute with 16-bit weights and gradients; an optimizer updates a float32 master of them
// and rounds it to 16 bits for the next step (kernels/master_weights.h). The update is memory-bound
// and the backward pass compute-bound, so a layer's update runs beside the backward pass of the
// layers before it, on a separate stream. `conversion` says where the rounding is done:
//
//   hidden    comp     forward …   backward 3   backward 2   backward 1
//             master                            update 3  convert 3  update 2  convert 2  …
//
//   exposed   comp     forward …   backward 3   backward 2   backward 1   convert 3  convert 2  …
//             master                            update 3     update 2     update 1
//
// The plain form updates and converts all layers after the backward pass. Ranks are independent of
// each other. On the host backend, layers use float32, and converting is copying.
#include "benchmarks/training.h"
#include "kernels/layer_stack.h"
#include "kernels/master_weights.h"

namespace overlapbench::families {
namespace {

constexpr std::uint32_t kSeed = 1000;

struct Works {
  Work forward;
  Work backward;
  Work update;
  Work convert;
};

Works WorksOf(const Machine& machine, const Settings& settings) {
  const long layers = settings.Integer("layers");
  const long width = settings.Integer("width");
  const TensorWorks works(machine, nullptr, kSeed);
  const SharedTensor gradients = works.Own(works.Shape(layers * width, width));
  const LayerStack stack(machine.device, layers, width, settings.Integer("tokens"), gradients);
  const MasterWeights master(machine.device, gradients, stack.updated);
  return {works.Multiply("forward", stack.Forward()), works.Multiply("backward", stack.Backward()),
          WorkOf("update", WorkClass::kMemory, {{gradients, master.master, master.updated}},
                 [=] { return MakeMasterUpdate(machine, master, kSeed); }),
          WorkOf("convert", WorkClass::kMemory, {{master.updated, master.weights}},
                 [=] { return MakeConversion(machine, master, kSeed); })};
}

Schedule PlainForm(const Works& works) {
  Schedule schedule;
  const std::size_t lane = schedule.AddLane({.name = "lane"});
  schedule.Add(lane, works.forward);
  const std::size_t done = schedule.Add(lane, works.backward);
  const std::size_t updated = schedule.Add(lane, works.update, {.after = {done}});
  schedule.Add(lane, works.convert, {.after = {updated}});
  return schedule;
}

Schedule Pattern(const Works& works, long layers, bool hides_conversion) {
  Schedule schedule;
  const std::size_t comp = schedule.AddLane({.name = "comp"});
  const std::size_t master = schedule.AddLane({.name = "master"});
  schedule.Add(comp, works.forward);
  std::vector<std::size_t> updated;
  for (long layer = 0; layer < layers; ++layer) {
    const Part part{layer, layers};
    const std::size_t made = schedule.Add(comp, works.backward, {.part = part});
    updated.push_back(schedule.Add(master, works.update, {.part = part, .after = {made}}));
    if (hides_conversion)
      schedule.Add(master, works.convert, {.part = part, .after = {updated.back()}});
  }
  for (long layer = 0; layer < layers && !hides_conversion; ++layer)
    schedule.Add(comp, works.convert, {.part = {layer, layers}, .after = {updated[layer]}});
  return schedule;
}

Scenario Steps(const Catalog& catalog) {
  const bool host = catalog.on_host();
  Scenario scenario{.name = "MixedPrecision/Step"};
  scenario.axes = {
      IntegerAxis("layers", "equal linear layers", 1, 1024, host ? "8" : "16"),
      IntegerAxis("width", "inputs and outputs of a layer, a multiple of 16", 16, 1 << 16,
                  host ? "128" : "4096"),
      IntegerAxis("tokens", "tokens of one rank", 1, 1L << 24, host ? "128" : "1024,4096,16384"),
      ChoiceAxis("conversion", "to 16 bits: beside the backward pass, or behind it",
                 {"hidden", "exposed"}, "hidden,exposed")};
  scenario.missing = catalog.workloads.Find(host ? "Gemm" : "CublasGemm").missing;
  scenario.excluded = ExcludedWidth;
  scenario.runs = [machine = catalog.machine](const Settings& settings) {
    const Works works = WorksOf(machine, settings);
    return TrainingRuns(PlainForm(works), Pattern(works, settings.Integer("layers"),
                                                  settings.Text("conversion") == "hidden"));
  };
  scenario.report = [](const Measurement& measurement, Counters& counters) {
    return ReportTraining(
        measurement, counters,
        measurement.ranks() * static_cast<double>(measurement.settings().Integer("tokens")));
  };
  return scenario;
}

}  // namespace

Family MixedPrecision() {
  return {.name = "MixedPrecision",
          .about = "16-bit layers whose float32 master weights are updated beside them.",
          .lead = {"time", "speedup", "pct_of_bound", "exposed_comm_ms", "interference_ms"},
          .scenarios = [](const Catalog& catalog) { return std::vector{Steps(catalog)}; }};
}

}  // namespace overlapbench::families
