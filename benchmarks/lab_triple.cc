// Lab/Triple: what do two communications and a computation cost each other?
//
// Tensor-parallel and sharded traffic share the link, and copies to the host run beside both. Each
// row has two of an all-gather, a reduce-scatter, an all-to-all and a copy to the host beside a
// product or a streaming kernel, by every transport; the communications start first, as in a
// training step. comm_slowdown, second_slowdown and comp_slowdown show what each side loses, and
// product_error how far off T is if slowdowns multiply (benchmarks/pair.h). Sizes are such that any
// side takes about 0.6 ms on an H200.
#include "benchmarks/pair.h"

namespace overlapbench::families {
namespace {

constexpr const char* kFamily = "Lab/Triple";

std::vector<PairSide> Computations(bool host) {
  if (host) {
    return {{"Gemm", {{"n", "256"}, {"grid", "8x8"}, {"work", "tile"}}},
            {"StreamKernel", {{"array_bytes", "8M"}, {"blocks", "4"}}}};
  }
  return {{"CublasGemm", {{"n", "6144"}, {"precision", "bf16"}}},
          {"StreamKernel", {{"array_bytes", "1G"}, {"blocks", "8448"}}}};
}

std::vector<Scenario> Scenarios(const Catalog& catalog) {
  const bool host = catalog.on_host();
  const std::vector<std::string> communications = {"AllGather", "ReduceScatter", "AllToAll",
                                                   "DeviceToHost"};
  const Values on_host = {{"bytes", "1M"}, {"second_bytes", "same"}};
  const Values on_gpus = {{"bytes", "256M"}, {"transport", "nccl,copy,sm_bulk"}, {"first", "comm"}};
  const Values& sizes = host ? on_host : on_gpus;
  std::vector<Scenario> scenarios;
  for (std::size_t one = 0; one < communications.size(); ++one) {
    for (std::size_t other = one + 1; other < communications.size(); ++other) {
      for (const PairSide& comp : Computations(host)) {
        Values values = comp.values;
        values.insert(sizes.begin(), sizes.end());
        if (communications[other] == "DeviceToHost") values["second_bytes"] = host ? "8M" : "32M";
        scenarios.push_back(PairScenario(
            catalog, kFamily, {communications[one], communications[other], comp.workload}, values));
      }
    }
  }
  return scenarios;
}

}  // namespace

Family LabTriple() {
  return {.name = kFamily,
          .about = "Two communications beside one computation, and whether slowdowns multiply.",
          .lead = {"slowdown", "comp_slowdown", "comm_slowdown", "second_slowdown",
                   "product_slowdown", "product_error"},
          .scenarios = &Scenarios};
}

}  // namespace overlapbench::families
