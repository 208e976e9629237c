// Lab/Matrix: what does each side cost the other?
//
// Eight computations, each with a different bottleneck, beside an all-gather by every transport and
// beside copies, with either side first. Each row is a pair, as in Overlap: comp_slowdown and
// comm_slowdown show what each side loses. All-gathers are in place where the transport can, as
// frameworks do it: then nothing is copied within the GPU. Sizes are such that either side takes
// about 0.7 ms on an H200.
#include "benchmarks/pair.h"

namespace overlapbench {
namespace {

constexpr const char* kFamily = "Lab/Matrix";

std::vector<PairSide> GpuComputations() {
  return {{"CublasGemm", {{"n", "6144"}, {"precision", "bf16"}}},
          {"FmaKernel", {}},
          {"StreamKernel", {{"array_bytes", "1G"}, {"blocks", "8448"}}},
          {"L2Kernel", {}},
          {"SharedKernel", {}},
          {"ChainKernel", {}},
          {"SoftmaxFused", {{"matrix_bytes", "1G"}, {"columns", "8192"}}},
          {"Attention", {}}};
}

std::vector<PairSide> HostComputations() {
  return {{"Gemm", {{"n", "256"}, {"grid", "8x8"}, {"work", "tile"}}},
          {"FmaKernel", {}},
          {"StreamKernel", {{"array_bytes", "8M"}, {"blocks", "4"}}},
          {"L2Kernel", {}},
          {"SharedKernel", {}},
          {"ChainKernel", {}},
          {"SoftmaxFused", {{"matrix_bytes", "1M"}, {"columns", "1024"}}},
          {"Attention", {}}};
}

std::vector<Scenario> Scenarios(const Catalog& catalog) {
  std::vector<Scenario> scenarios;
  for (const PairSide& comm : MatrixCommunications(catalog)) {
    for (const PairSide& comp : MatrixComputations(catalog)) {
      Values values = comp.values;
      values.insert(comm.values.begin(), comm.values.end());
      if (!catalog.on_host()) values["first"] = "comp,comm";
      scenarios.push_back(PairScenario(catalog, kFamily, {comm.workload, comp.workload}, values));
    }
  }
  return scenarios;
}

}  // namespace

std::vector<PairSide> MatrixComputations(const Catalog& catalog) {
  return catalog.on_host() ? HostComputations() : GpuComputations();
}

std::vector<PairSide> MatrixCommunications(const Catalog& catalog) {
  if (catalog.on_host()) {
    return {{"AllGather", {{"bytes", "1M"}}},
            {"AllReduce", {{"bytes", "1M"}}},
            {"HostToDevice", {{"bytes", "8M"}}},
            {"DeviceToHost", {{"bytes", "8M"}}}};
  }
  return {
      {"AllGather",
       {{"bytes", "512M"}, {"place", "in"}, {"transport", "nccl,copy,sm_load,sm_store,sm_bulk"}}},
      {"AllGather", {{"bytes", "512M"}, {"transport", "nccl_ce,nccl_sym"}}},
      {"PeerCopy", {{"bytes", "256M"}}},
      {"HostToDevice", {{"bytes", "32M"}}},
      {"DeviceToHost", {{"bytes", "32M"}}}};
}

namespace families {

Family LabMatrix() {
  return {.name = kFamily,
          .about = "Computations bound by different things, beside every transport and copy.",
          .lead = {"comp_slowdown", "comm_slowdown", "slowdown", "comp_ms", "comm_ms"},
          .scenarios = &Scenarios};
}

}  // namespace families
}  // namespace overlapbench
