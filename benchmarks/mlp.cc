// Mlp: training a small network, where launches cost as much as the work, and a large one.
//
// Time against steps and against layers gives two lines: their slopes are what a step and a layer
// cost, their intercepts what is paid once. tools/overlapbench/fit.py fits them.
#include "benchmarks/plan.h"
#include "fixtures/mlp_fixture.h"

namespace overlapbench {

void PlanMlp(Plan& plan) {
  const std::map<std::string, std::string> along_steps = {{"steps", "2,3,4,5"}};
  const std::map<std::string, std::string> along_layers = {{"layers", "2,3,4,5"}};
  const std::map<std::string, std::string> fills_the_gpu = {
      {"dim", "8192"}, {"batch", "8192"}, {"steps", "1"}};
  for (const auto& values : {along_steps, along_layers, fills_the_gpu}) {
    plan.Add<MlpFixture>("Mlp", {"", "Mlp", values, {"MlpLoop", "MlpKernel"}, "Training"});
  }
}

}  // namespace overlapbench
