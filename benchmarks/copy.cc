// Copy: how fast data moves, and how well moving it hides behind computing.
//
// Bandwidth        every route alone, and both directions of the bus at once: kinds of host memory,
//                  sizes, copy engine against SMs.
// Sequential       copy in, compute, copy out, one after the other
// Pipelined        and in parts on several streams, from copy-bound to compute-bound.
// ComputeTransfer  batches on one stream for transfers and one for computation.
// Fragmented       one large transfer against many small ones.
#include "benchmarks/plan.h"
#include "fixtures/duplex_fixture.h"
#include "fixtures/pipeline_fixture.h"
#include "fixtures/transfer_fixture.h"

namespace overlapbench {
namespace {

using Values = std::map<std::string, std::string>;

struct Defaults {
  std::string all_bytes;  // a curve of bandwidth against size
  std::string few_bytes;  // the same, with the ends and the bend of the curve only
  Values pipeline;        // the report's array, copy-bound to compute-bound
  Values large_pipeline;  // where fixed costs no longer matter
};

Defaults DefaultsOf(Backend backend) {
  if (backend == Backend::kCuda) {
    return {"4K,64K,1M,16M,64M,256M,1G",
            "64K,1M,64M,1G",
            {{"intensity", "16,2048,8192"}},
            {{"elements", "67108864"}, {"intensity", "2048"}, {"pipeline_streams", "1,4"}}};
  }
  return {"64K,1M,16M", "64K,16M", {{"intensity", "1,4,16"}, {"pipeline_streams", "1,2,4"}}, {}};
}

void PlanBandwidth(Plan& plan, const Defaults& defaults) {
  const Values pinned = {{"bytes", defaults.all_bytes}};
  const Values others = {{"bytes", defaults.few_bytes}, {"memory", "registered,pageable"}};
  const Values by_sm = {{"bytes", defaults.few_bytes}, {"engine", "sm"}};
  const std::string title = "Bandwidth/direction:";
  for (const Values& values : {pinned, others, by_sm}) {
    plan.Add<BaselineFixture>("Copy", {"", "HostToDevice", values, {}, title + "host_to_device"});
    plan.Add<BaselineFixture>("Copy", {"", "DeviceToHost", values, {}, title + "device_to_host"});
    plan.Add<DuplexFixture>("Copy", {"HostToDevice", "DeviceToHost", values, {}, title + "both"});
  }
  for (const Values& values : {pinned, by_sm}) {
    plan.Add<BaselineFixture>("Copy", {"", "DeviceCopy", values, {}, title + "device_local"});
    plan.Add<BaselineFixture>("Copy", {"", "PeerCopy", values, {}, title + "peer"});
  }
}

void PlanPipelines(Plan& plan, const Defaults& defaults) {
  const std::vector<std::string> stages = {"Sequential", "PipelineIn", "PipelineCompute",
                                           "PipelineOut"};
  plan.Add<BaselineFixture>("Copy", {"", "Sequential", {{"memory", "pinned,pageable"}}});
  plan.Add<PipelineFixture>("Copy", {"", "Pipelined", defaults.pipeline, stages});
  plan.Add<PipelineFixture>(
      "Copy", {"", "Pipelined", {{"memory", "pageable"}, {"pipeline_streams", "1,4"}}, stages});
  if (!defaults.large_pipeline.empty())
    plan.Add<PipelineFixture>("Copy", {"", "Pipelined", defaults.large_pipeline, stages});
}

}  // namespace

void PlanCopy(Plan& plan, Backend backend) {
  const Defaults defaults = DefaultsOf(backend);
  PlanBandwidth(plan, defaults);
  PlanPipelines(plan, defaults);
  plan.Add<ComputeTransferFixture>("Copy", {"",
                                            "ComputeTransfer",
                                            {{"tie", "events,host"}},
                                            {"ComputeTransferInTurn", "ComputeTransferByEvents"}});
  plan.Add<FragmentedFixture>("Copy", {"", "Fragmented", {}, {"OneTransfer"}});
}

}  // namespace overlapbench
