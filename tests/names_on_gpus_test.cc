// The names of rows on GPUs: every combination of the axes' values that is not in the list of names
// is excluded.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "scenarios.h"

namespace overlapbench {
namespace {

// The axes of workloads that only builds with CUDA have, so that others can tell their names, too.
const std::map<std::string, std::vector<Axis>>& AxesOfCuda() {
  static const std::map<std::string, std::vector<Axis>> axes = {
      {"CublasGemm",
       {IntegerAxis("n", "", 16, 1 << 16, "8192"),
        ChoiceAxis("precision", "", {"bf16", "fp16", "tf32", "fp32", "fp8"}, "bf16"),
        IntegerAxis("repeat", "", 1, 10000, "1", "1"),
        IntegerAxis("sm_target", "", 0, 1024, "0", "0")}},
      {"Mlp",
       {IntegerAxis("dim", "", 16, 1 << 16, "256"), IntegerAxis("layers", "", 1, 64, "4"),
        IntegerAxis("batch", "", 16, 1 << 20, "256"), IntegerAxis("steps", "", 1, 64, "2"),
        ChoiceAxis("precision", "", {"bf16", "fp16", "tf32", "fp32"}, "bf16", "bf16"),
        ChoiceAxis("gelu", "", {"kernel", "epilogue"}, "kernel,epilogue"),
        ChoiceAxis("call", "", {"loop", "graph"}, "loop,graph")}},
      {"PeerCopy",
       {BytesAxis("bytes", "", "1M,64M,1G"),
        ChoiceAxis("engine", "", {"copy", "sm"}, "copy", "copy")}},
      {"StandIn",
       {IntegerAxis("stand_in_sms", "", 1, 1024, "16"),
        IntegerAxis("stand_in_us", "", 1, 1'000'000, "1000"),
        IntegerAxis("stand_in_bytes", "", 0, 1L << 40, "0", "0"),
        BytesAxis("stand_in_span", "", "256M")}}};
  return axes;
}

// Their names, values and standing values.
std::vector<std::string> Told(const std::vector<Axis>& axes) {
  std::vector<std::string> told;
  for (const Axis& axis : axes)
    told.push_back(fmt::format("{}={} {}", axis.name, fmt::join(axis.values, ","), axis.standing));
  return told;
}

// Two ranks that each have an H200, with everything installed. A row that is not in the list is
// excluded, as far as that can be told without a GPU.
TEST(NamesOnGpus, AreTheCombinationsThatAreNotExcluded) {
  const auto device = PosingDevice::H200();
  Progress progress(0, 2);
  Ranks ranks(RankPlace{.rank = 0, .size = 2}, progress);
  Machine machine{*device, ranks};
  const Registry known = AllWorkloads(machine);
  Registry workloads;
  for (WorkloadSpec spec : known.specs()) {
    if (const auto axes = AxesOfCuda().find(spec.name); axes != AxesOfCuda().end()) {
      if (spec.axes.empty()) spec.footprint = [](const Settings&) { return Footprint{}; };
      if (spec.axes.empty()) spec.axes = axes->second;
      EXPECT_EQ(Told(spec.axes), Told(axes->second)) << spec.name;
    }
    spec.missing = "";
    workloads.Add(std::move(spec));
  }
  std::set<std::string> expected;
  std::ifstream file(std::string(TEST_DATA) + "/names-cuda.txt");
  for (std::string name; std::getline(file, name);) expected.insert(name);
  EXPECT_GT(expected.size(), 1000U);
  std::set<std::string> lost = expected;
  for (Scenario scenario : AllScenarios({workloads, *device, machine})) {
    AppendAxes(scenario.axes, SampleAxes());
    for (const Settings& settings : Combinations(scenario.axes)) {
      const std::string name = scenario.name + settings.NameSuffix();
      lost.erase(name);
      if (expected.contains(name) || !scenario.excluded) continue;
      std::string why;
      try {
        why = scenario.excluded(settings);
      } catch (const Error& error) {
        why = error.what();  // it asks a GPU
      }
      EXPECT_NE(why, "") << name;
    }
  }
  EXPECT_EQ(lost, std::set<std::string>{}) << "are the names of no combination";
}

}  // namespace
}  // namespace overlapbench
