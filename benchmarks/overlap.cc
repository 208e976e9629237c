// Overlap: a computation beside a communication.
//
// The default rows answer three questions:
//
// 1. The central experiment: how does a GEMM whose grid sets the number of SMs it occupies run
//    beside an all-to-all of a 4096×4096 float matrix? In both forms of work.
// 2. Which pairs disturb each other? {naive GEMM, cuBLASLt GEMM, bandwidth-bound kernel} beside
//    {all-to-all, all-reduce, all-gather, reduce-scatter, host-to-device copy}, at a few sizes.
// 3. Does leaving SMs free help? A cuBLASLt GEMM with and without an SM target beside a 1 GiB
//    all-reduce.
//
// And the ground truth: two delays of known length, on two streams and on one.
//
// benchmarks/pair.h has the runs of a row, and its knobs.
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <sstream>

#include "benchmarks/pair.h"
#include "device/text.h"

namespace overlapbench {
namespace {

constexpr const char* kFamily = "Overlap";

struct Defaults {
  Values experiment_tile;
  Values experiment_full;
  std::string pair_bytes;
  std::map<std::string, Values> pair_computations;

  // The values for a pair with this computation.
  [[nodiscard]] Values OfPair(const std::string& computation) const {
    const auto found = pair_computations.find(computation);
    Values values = found == pair_computations.end() ? Values() : found->second;
    values["bytes"] = pair_bytes;
    return values;
  }
};

Defaults DefaultsOf(bool host) {
  if (host) {
    return {{{"bytes", "4M"}, {"n", "256"}, {"work", "tile"}},
            {{"bytes", "4M"}, {"n", "128"}, {"work", "full"}},
            "1M,8M",
            {{"Gemm", {{"n", "256"}, {"grid", "8x8"}, {"work", "tile"}}},
             {"CublasGemm", {}},
             {"StreamKernel", {{"array_bytes", "8M"}, {"blocks", "4"}}}}};
  }
  return {{{"bytes", "64M"}, {"n", "4096"}, {"work", "tile"}},
          {{"bytes", "64M"}, {"n", "1024"}, {"work", "full"}},
          "1M,64M,1G",
          {{"Gemm", {{"n", "4096"}, {"grid", "64x64"}, {"work", "tile"}}},
           {"CublasGemm", {{"n", "8192"}, {"precision", "bf16"}}},
           {"StreamKernel", {{"array_bytes", "256M"}, {"blocks", "132"}}}}};
}

constexpr std::array kPairCommunications = {"AllToAll", "AllReduce", "AllGather", "ReduceScatter",
                                            "HostToDevice"};

// All SMs, and all but the 24 that NCCL's collectives take by default.
std::string SmTargets(const Device& device) {
  constexpr int kLeftFree = 24;
  const int target = device.info().multiprocessors - kLeftFree;
  return target > 0 ? fmt::format("0,{}", target) : "0";
}

const WorkloadSpec& WorkloadOfPair(const Registry& workloads, const std::string& name) {
  constexpr std::string_view kFused = "Fused";
  std::vector<std::string> known;
  for (const WorkloadSpec& spec : workloads.specs()) {
    if (spec.name == name || spec.name == name + std::string(kFused)) return spec;
    known.push_back(spec.name);
    if (spec.name.ends_with(kFused))
      known.push_back(spec.name.substr(0, spec.name.size() - kFused.size()));
  }
  const std::string meant = DidYouMean(name, known);
  throw UsageError(fmt::format("--pair: there is no workload '{}'{} --list_axes lists them", name,
                               meant.empty() ? ";" : meant));
}

std::vector<Scenario> Scenarios(const Catalog& catalog) {
  const Defaults defaults = DefaultsOf(catalog.on_host());
  std::vector<Scenario> scenarios;
  const auto add = [&](const char* comm, const char* comp, const Values& values) {
    scenarios.push_back(PairScenario(catalog, kFamily, {comm, comp}, values));
  };
  add("AllToAll", "Gemm", defaults.experiment_tile);
  add("AllToAll", "Gemm", defaults.experiment_full);
  if (!catalog.on_host()) {  // on the host, nothing decides which side starts first
    Values experiment = defaults.experiment_tile;
    experiment["first"] = "comm";
    add("AllToAll", "Gemm", experiment);
    for (const char* communication : {"AllToAll", "AllReduce"})
      add(communication, "CublasGemm", {{"bytes", "1G"}, {"first", "comm"}});
  }
  for (const char* communication : kPairCommunications) {
    for (const auto& [computation, values] : defaults.pair_computations)
      add(communication, computation.c_str(), defaults.OfPair(computation));
  }
  add("AllReduce", "CublasGemm",
      {{"bytes", "1G"}, {"repeat", "4"}, {"sm_target", SmTargets(catalog.device)}});
  add("SecondDelay", "Delay", {{"streams", "2,1"}});
  return scenarios;
}

}  // namespace

Scenario OverlapPair(const Catalog& catalog, const std::string& names) {
  std::vector<const WorkloadSpec*> specs;
  std::istringstream given(names);
  for (std::string name; std::getline(given, name, '+');) {
    specs.push_back(&WorkloadOfPair(catalog.workloads, name));
    if (std::ranges::count(specs, specs.back()) > 1) {
      throw UsageError(
          fmt::format("--pair: {} names {} twice: its sides must be different workloads", names,
                      specs.back()->name));
    }
  }
  std::ranges::stable_sort(specs, {}, [](const WorkloadSpec* spec) {
    return spec->work_class == WorkClass::kComm     ? 0
           : spec->work_class == WorkClass::kMemory ? 1
                                                    : 2;
  });
  std::vector<std::string> sides;
  for (const WorkloadSpec* spec : specs) sides.push_back(spec->name);
  return PairScenario(catalog, kFamily, sides, DefaultsOf(catalog.on_host()).OfPair(sides.back()));
}

namespace families {

Family Overlap() {
  return {.name = kFamily,
          .about = "A computation beside a communication or copy: C and M alone, T both together.",
          .lead = {"overlap_ms", "slowdown", "comp_slowdown", "comm_slowdown", "comp_ms", "comm_ms",
                   "efficiency"},
          .scenarios = &Scenarios};
}

}  // namespace families
}  // namespace overlapbench
