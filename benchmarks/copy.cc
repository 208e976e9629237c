// Copy: how fast data moves, and how well moving it hides behind computing. Its five experiments
// are in copy_*.cc.
#include "benchmarks/copy.h"

namespace overlapbench::families {
namespace {

std::vector<copy::Experiment> Experiments() {
  return {copy::Bandwidth(), copy::Sequential(), copy::Pipelined(), copy::ComputeTransfer(),
          copy::Fragmented()};
}

std::vector<Scenario> Scenarios(const Catalog& catalog) {
  std::vector<Scenario> all;
  for (const copy::Experiment& experiment : Experiments())
    for (Scenario& scenario : experiment.scenarios(catalog)) all.push_back(std::move(scenario));
  return all;
}

}  // namespace

Family Copy() {
  std::vector<Counter> counters;
  for (const copy::Experiment& experiment : Experiments())
    for (const Counter& counter : experiment.counters) counters.push_back(counter);
  return {.name = "Copy",
          .about =
              "Bandwidth of every route, pipelines of copies and kernels against their bound, "
              "and many small copies against one.",
          .lead = {"time", "GBps", "speedup", "pct_of_bound", "sync_cost_ms", "fragmented_slowdown",
                   "us_per_fragment"},
          .counters = counters,
          .scenarios = &Scenarios};
}

}  // namespace overlapbench::families
