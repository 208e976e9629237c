// Lab/Partition: how should two sides share a GPU's SMs?
//
// One pair at every combination of the SMs that the computation may use (comp_sms), the SMs or CTAs
// of the communication (comm_sms, comm_ctas), its transport, and which side starts first. Each row
// is a pair, as in Overlap; the chart marks the fastest combination.
//
// The default is a coarse grid around the best. All of it:
//   --axis comp_sms=0,64,72,80,88,96,104,112,120,128 --axis comm_sms=2,4,6,8,12,16,24,32
#include <algorithm>

#include "benchmarks/pair.h"

namespace overlapbench::families {
namespace {

constexpr const char* kFamily = "Lab/Partition";

// All SMs without a partition, and the number left without 4, 12 and 20 of them, in sizes that the
// device grants: 128, 120 and 112 on an H200.
std::string Limits(const Device& device) {
  const SmPartitions& partitions = device.info().partitions;
  std::string text = "0";
  for (const int taken : {4, 12, 20}) {
    const int left = (device.info().multiprocessors - taken) / partitions.step * partitions.step;
    if (partitions.least > 0 && left >= partitions.least) text += "," + std::to_string(left);
  }
  return text;
}

std::vector<Scenario> Scenarios(const Catalog& catalog) {
  // A rank has few cores, and their number must not be part of a name.
  if (catalog.on_host()) {
    const Values values = {{"bytes", "1M"}, {"array_bytes", "8M"}, {"blocks", "4"}};
    return {PairScenario(catalog, kFamily, {"AllReduce", "StreamKernel"}, values)};
  }
  const Values grid = {{"comp_sms", Limits(catalog.device)},
                       {"bytes", "1G"},
                       {"n", "8192"},
                       {"precision", "bf16"},
                       {"first", "comp,comm"}};
  const std::vector<Values> transports = {
      {{"transport", "nccl"}, {"comm_ctas", "0,8,16"}},
      {{"transport", "sm_load,sm_bulk"}, {"comm_sms", "4,8,16"}},
      {{"transport", "copy"}},
  };
  std::vector<Scenario> scenarios;
  for (Values values : transports) {
    values.insert(grid.begin(), grid.end());
    scenarios.push_back(PairScenario(catalog, kFamily, {"AllGather", "CublasGemm"}, values));
  }
  return scenarios;
}

}  // namespace

Family LabPartition() {
  return {.name = kFamily,
          .about = "One pair at every way to share the SMs between its sides.",
          .lead = {"overlap_ms", "slowdown", "comp_slowdown", "comm_slowdown"},
          .scenarios = &Scenarios};
}

}  // namespace overlapbench::families
