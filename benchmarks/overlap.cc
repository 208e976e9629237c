// Overlap: a computation beside a communication.
//
// The default cases answer three questions:
//   1. The central experiment: how does a GEMM whose grid sets the number of SMs it occupies get on
//   with an
//      all-to-all of a 4096×4096 float matrix? In both forms of work.
//   2. Which pairs disturb each other? {naive GEMM, cuBLASLt GEMM, bandwidth-bound kernel} beside
//      {all-to-all, all-reduce, all-gather, reduce-scatter, host-to-device copy}, at a few sizes.
//   3. Does leaving SMs free help? A cuBLASLt GEMM with and without an SM target beside a 1 GiB
//   all-reduce.
// And the ground truth: two delays of known length, on two streams and on one.
#include <array>

#include "benchmarks/plan.h"
#include "fixtures/overlap_fixture.h"

namespace overlapbench {
namespace {

using Values = std::map<std::string, std::string>;

struct Defaults {
  Values experiment_tile;
  Values experiment_full;
  std::string pair_bytes;
  std::map<std::string, Values> pair_computations;
};

Defaults CudaDefaults() {
  return {{{"bytes", "64M"}, {"n", "4096"}, {"work", "tile"}},
          {{"bytes", "64M"}, {"n", "1024"}, {"work", "full"}},
          "1M,64M,1G",
          {{"Gemm", {{"n", "4096"}, {"grid", "64x64"}, {"work", "tile"}}},
           {"CublasGemm", {{"n", "8192"}, {"precision", "bf16"}}},
           {"StreamKernel", {{"array_bytes", "256M"}, {"blocks", "132"}}}}};
}

Defaults HostDefaults() {
  return {{{"bytes", "4M"}, {"n", "256"}, {"work", "tile"}},
          {{"bytes", "4M"}, {"n", "128"}, {"work", "full"}},
          "1M,8M",
          {{"Gemm", {{"n", "256"}, {"grid", "8x8"}, {"work", "tile"}}},
           {"CublasGemm", {}},
           {"StreamKernel", {{"array_bytes", "8M"}, {"blocks", "4"}}}}};
}

constexpr std::array kPairCommunications = {"AllToAll", "AllReduce", "AllGather", "ReduceScatter",
                                            "HostToDevice"};

// On the host nothing decides which side starts first, see the axis.
void PlanCommunicationFirst(Plan& plan, const Defaults& defaults) {
  Values experiment = defaults.experiment_tile;
  experiment["first"] = "comm";
  plan.Add<OverlapFixture>("Overlap", {"AllToAll", "Gemm", experiment});
  for (const auto* communication : {"AllToAll", "AllReduce"}) {
    plan.Add<OverlapFixture>("Overlap",
                             {communication, "CublasGemm", {{"bytes", "1G"}, {"first", "comm"}}});
  }
}

}  // namespace

void PlanOverlap(Plan& plan, Backend backend) {
  const Defaults defaults = backend == Backend::kCuda ? CudaDefaults() : HostDefaults();
  plan.Add<OverlapFixture>("Overlap", {"AllToAll", "Gemm", defaults.experiment_tile});
  plan.Add<OverlapFixture>("Overlap", {"AllToAll", "Gemm", defaults.experiment_full});
  if (backend == Backend::kCuda) PlanCommunicationFirst(plan, defaults);
  for (const auto* communication : kPairCommunications) {
    for (const auto& [computation, values] : defaults.pair_computations) {
      Values all = values;
      all["bytes"] = defaults.pair_bytes;
      plan.Add<OverlapFixture>("Overlap", {communication, computation, all});
    }
  }
  plan.Add<OverlapFixture>(
      "Overlap",
      {"AllReduce", "CublasGemm", {{"bytes", "1G"}, {"repeat", "4"}, {"sm_target", "0,108"}}});
  plan.Add<OverlapFixture>("Overlap", {"SecondDelay", "Delay", {{"streams", "2,1"}}});
}

}  // namespace overlapbench
