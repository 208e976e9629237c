// Gelu: the activation in every form and type, fused and not, against a copy in the same group.
//
// The fused kernel runs forward at all sizes, with a tail of three elements, and with every tensor
// misaligned by one element. It runs backward at 2^28 elements, which in fp32 is a matrix of 16384
// by 16384. The other forms run only at that size.
#include <array>
#include <utility>

#include "benchmarks/against_copy.h"

namespace overlapbench::families {
namespace {

// Half of what is moved: one array in and one out forward, two in and one out backward.
long HalfOfArraysBytes(const Settings& settings) {
  const long arrays = settings.Text("direction") == "backward" ? 3 : 2;
  return settings.Integer("count") * ElementBytes(settings) * arrays / 2;
}

std::vector<Scenario> Scenarios(const Catalog& catalog) {
  const bool host = catalog.on_host();
  const char* const counts =
      host ? "65536,1048576" : "1048576,4194304,16777216,67108864,268435456,536870912";
  const char* const large = host ? "1048576" : "268435456";
  const char* const middle = host ? "65536" : "67108864";
  const char* const middle_and_tail = host ? "65539" : "67108867";
  const char* const types = host ? "fp32,bf16" : "bf16,fp16,fp32";
  const char* const few_types = host ? "fp32" : "bf16,fp32";
  std::vector<Scenario> scenarios;
  const auto add = [&](const std::string& name, const WorkloadSpec& kernel, Values values,
                       const WorkloadSpec* fused_form) {
    values.insert({"form", "tanh,erf"});
    scenarios.push_back(ScenarioOf(
        catalog, {"Gelu/" + name, kernel, std::move(values), HalfOfArraysBytes, fused_form}));
  };
  const WorkloadSpec& fused = catalog.workloads.Find("GeluFused");
  const Values fused_rows[] = {{{"count", counts}},
                               {{"count", large}, {"direction", "backward"}},
                               {{"count", middle_and_tail}},
                               {{"count", middle}, {"offset", "1"}}};
  for (Values values : fused_rows) {
    values.insert({"precision", types});
    add("Fused", fused, std::move(values), nullptr);
  }
  for (const auto& [workload, name] :
       {std::pair("GeluUnfused", "Unfused"), std::pair("GeluFusedScalar", "FusedScalar")}) {
    add(name, catalog.workloads.Find(workload), {{"count", large}, {"precision", few_types}},
        &fused);
  }
  return scenarios;
}

}  // namespace

Family Gelu() {
  return {.name = "Gelu",
          .about =
              "GELU, fused and not; 100 % is a device copy of as many bytes as the kernel must "
              "move, in the same run.",
          .lead = {"time", "pct_of_copy", "GBps", "fused_speedup", "predicted_speedup"},
          .scenarios = &Scenarios};
}

}  // namespace overlapbench::families
