// What every workload says of itself: its cost, whether copy engines do it, whether enqueueing
// waits, which settings are excluded, and why it is missing.
#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "backends.h"
#include "benchmarks/catalog.h"
#include "device/watches.h"
#include "test_ranks.h"
#include "workload_fixture.h"

namespace overlapbench {
namespace {

class WorkloadFactsTest : public WorkloadFixture {
 protected:
  Cost CostOf(const std::string& name, const Values& values) { return Make(name, values)->cost(); }
  std::unique_ptr<ActivityWatch> Watch() { return device().watches().Activities(); }
};
INSTANTIATE_ON_EACH_BACKEND(WorkloadFactsTest);

TEST_P(WorkloadFactsTest, SayWhenTheyAreCopyEngines) {
  for (const std::string name : {"HostToDevice", "DeviceToHost", "DeviceCopy"}) {
    for (const std::string engine : {"copy", "sm"}) {
      const Values values = {{"engine", engine}};
      const bool may_be = engine == "copy";
      EXPECT_EQ(Spec(name).by_copy_engine(SettingsOf(name, values)),
                may_be && name != "DeviceCopy");
      if (GetParam() == Backend::kCuda) continue;
      const auto workload = Make(name, values);
      const auto watch = Watch();
      Run(*workload);
      EXPECT_EQ(std::ranges::count(watch->Stop().records, ActivityKind::kCopy, &Activity::kind),
                may_be ? 1 : 0);
    }
  }
  EXPECT_TRUE(Spec("BatchCopy").by_copy_engine(SettingsOf("BatchCopy", {})));
}

TEST_P(WorkloadFactsTest, GiveTheReasonForExcludedCombinations) {
  struct {
    const char* name;
    Values values;
    std::string reason;
  } const cases[] = {
      {"HostToDevice", {{"bytes", "6"}}, "bytes must be a multiple of 4"},
      {"DeviceCopy", {{"bytes", "7"}}, "bytes must be a multiple of 4"},
      {"DeviceToHost",
       {{"engine", "sm"}, {"memory", "pageable"}},
       "a kernel cannot access pageable memory"},
      {"StreamKernel", {{"array_bytes", "2"}}, "array_bytes must be a multiple of 4"},
      {"L2Kernel", {{"l2_bytes", "24K"}}, "l2_bytes must be a multiple of 16K"},
      {"ChainKernel", {{"chain_bytes", "48K"}}, "chain_bytes must be a power of two from 8 to 8G"},
      {"ChainKernel",
       {{"chain_bytes", "4K"}, {"chain_steps", "1024"}},
       "chain_steps must be less than chain_bytes / 4, or a chain would end where it began"},
      {"Attention", {{"sequence", "200"}}, "sequence must be a multiple of 128"},
      {"BatchCopy",
       {{"bytes", "64"}, {"fragments", "32"}},
       "bytes must be a multiple of 4 * fragments"},
      {"Pieces",
       {{"total_steps", "100"}, {"launches", "16"}},
       "total_steps must be a multiple of launches"}};
  for (const auto& [name, values, reason] : cases)
    EXPECT_EQ(Spec(name).excluded(SettingsOf(name, values)), reason) << name;
}

TEST_P(WorkloadFactsTest, CopyInBatchesWhereTheDeviceCan) {
  Registry registry;
  const auto plain = GetParam() == Backend::kHost ? OpenHostDevice(2) : OpenCudaDevice(ordinal());
  Machine machine{*plain, TestRanks()};
  FillRegistry(registry, machine);
  const auto settings = SettingsOf("BatchCopy", {{"bytes", "64"}, {"fragments", "16"}});
  EXPECT_EQ(registry.Find("BatchCopy").excluded(settings), plain->info().no_batch_copy);
}

TEST_P(WorkloadFactsTest, HaveOneKindOfHostMemoryOnTheHost) {
  const std::string reason = GetParam() == Backend::kHost
                                 ? "the host backend has one kind of memory: use memory:pinned"
                                 : "";
  for (const auto* name : {"HostToDevice", "DeviceToHost"}) {
    EXPECT_EQ(Spec(name).excluded(SettingsOf(name, {{"memory", "pinned"}})), "") << name;
    for (const auto* kind : {"registered", "pageable"})
      EXPECT_EQ(Spec(name).excluded(SettingsOf(name, {{"memory", kind}})), reason) << name;
  }
}

// The gate must not hold what they wait for.
TEST_P(WorkloadFactsTest, SayWhenEnqueueingWaits) {
  struct {
    const char* name;
    Values values;
    bool waits;
  } const cases[] = {{"HostToDevice", {{"memory", "registered"}}, false},
                     {"HostToDevice", {{"memory", "pageable"}}, true},
                     {"DeviceCopy", {}, false},
                     {"BatchCopy", {}, false},
                     {"StageIn", {{"memory", "pinned"}}, false},
                     {"StageIn", {{"memory", "pageable"}}, true},
                     {"StageCompute", {{"memory", "pageable"}}, false},
                     {"StageOut", {{"memory", "pageable"}}, true},
                     {"EmptyKernel", {}, false},
                     {"RoundTrip", {}, true}};
  for (const auto& [name, values, waits] : cases)
    EXPECT_EQ(Make(name, values)->enqueue_waits(), waits) << name;
}

TEST_P(WorkloadFactsTest, ReportTheirCost) {
  const Cost tile = CostOf("Gemm", {{"n", "64"}, {"grid", "3x2"}, {"work", "tile"}});
  EXPECT_EQ(tile.flops, 2.0 * 48 * 32 * 64);
  EXPECT_EQ(tile.moved_bytes, 4.0 * (32 * 64 + 64 * 48 + 32 * 48));
  const Cost full = CostOf("Gemm", {{"n", "64"}, {"grid", "3x2"}, {"work", "full"}});
  EXPECT_EQ(full.flops, 2.0 * 64 * 64 * 64);
  EXPECT_EQ(full.moved_bytes, 4.0 * 3 * 64 * 64);
  const Cost triad = CostOf("StreamKernel", {{"array_bytes", "1M"}});
  EXPECT_EQ(triad.moved_bytes, 3.0 * (1 << 20));
  EXPECT_EQ(triad.flops, 2.0 * (1 << 18));
  EXPECT_EQ(CostOf("L2Kernel", {{"l2_bytes", "32K"}, {"l2_passes", "3"}}).cached_bytes,
            3.0 * 32768);
  const auto bytes_of = [this](const char* name) {
    return static_cast<double>(Spec(name).footprint(SettingsOf(name, {})).device_bytes);
  };
  EXPECT_EQ(CostOf("FmaKernel", {{"fma_steps", "3"}}).flops, 2.0 * 3 * bytes_of("FmaKernel") / 8);
  EXPECT_EQ(CostOf("SharedKernel", {{"shared_steps", "3"}}).cached_bytes,
            3.0 * bytes_of("SharedKernel") * 64 / 68);
  EXPECT_EQ(CostOf("Attention", {{"heads", "3"}, {"sequence", "256"}}).flops,
            3.0 * 4 * 256 * 256 * 128);
  EXPECT_EQ(CostOf("Attention", {{"heads", "3"}, {"sequence", "256"}}).moved_bytes,
            3.0 * 4 * 256 * 128 * 2);
  const Cost gelu = CostOf("GeluFused", {{"count", "1000"}, {"precision", "fp32"}});
  EXPECT_EQ(gelu.moved_bytes, 2.0 * 4 * 1000);
  const Cost softmax =
      CostOf("SoftmaxFused", {{"matrix_bytes", "1M"}, {"columns", "1024"}, {"precision", "fp32"}});
  EXPECT_EQ(softmax.moved_bytes, 2.0 * (1 << 20));
  for (const auto* copy : {"HostToDevice", "DeviceToHost"}) {
    const Cost cost = CostOf(copy, {{"bytes", "1M"}});
    EXPECT_EQ(cost.copied_bytes, 1 << 20) << copy;
    EXPECT_EQ(cost.host_bytes, 1 << 20) << copy;
    EXPECT_EQ(cost.memory_bytes, 1 << 20) << copy;
    EXPECT_EQ(cost.moved_bytes, 0) << copy;
  }
  EXPECT_EQ(CostOf("DeviceCopy", {{"bytes", "1M"}}).moved_bytes, 2 << 20);
  EXPECT_EQ(CostOf("BatchCopy", {{"bytes", "1M"}, {"fragments", "16"}}).copied_bytes, 1 << 20);
  const Values staged = {{"parts", "3"}, {"part_elements", "1024"}, {"steps_added", "5"}};
  for (const auto* copy : {"StageIn", "StageOut"}) {
    EXPECT_EQ(CostOf(copy, staged).copied_bytes, 3 * 1024 * 4.0) << copy;
    EXPECT_EQ(CostOf(copy, staged).host_bytes, 3 * 1024 * 4.0) << copy;
    EXPECT_EQ(CostOf(copy, staged).flops, 0) << copy;
  }
  EXPECT_EQ(CostOf("StageCompute", staged).flops, 2.0 * 3 * 1024 * 5);
  EXPECT_EQ(CostOf("StageCompute", staged).copied_bytes, 0);
  EXPECT_EQ(CostOf("EmptyKernel", {}).flops, 0);
  EXPECT_EQ(CostOf("Delay", {}).flops, 0);
}

TEST_P(WorkloadFactsTest, CollectivesNeedTheMemoryOfTheirBuffersAlone) {
  if (TestRanks().size() == 1) GTEST_SKIP() << "collectives need two ranks";
  for (const auto& [place, buffers] : {std::pair{"out", 2U}, std::pair{"in", 1U}}) {
    const Footprint footprint =
        Spec("AllReduce").footprint(SettingsOf("AllReduce", {{"bytes", "1M"}, {"place", place}}));
    EXPECT_EQ(footprint.device_bytes, buffers << 20) << place;
    EXPECT_EQ(footprint.host_bytes, 0U) << place;
  }
}

// nccl-tests, doc/PERFORMANCE.md. Memory is read and written by this rank and by its peers.
TEST_P(WorkloadFactsTest, CollectivesCountBytesAsNcclTests) {
  if (TestRanks().size() == 1) GTEST_SKIP() << "collectives need two ranks";
  const double others = (TestRanks().size() - 1.0) / TestRanks().size();
  struct {
    const char* name;
    double bus_factor;
    double memory_factor;
  } const cases[] = {{"AllToAll", others, 2},  {"AllReduce", 2 * others, 3},
                     {"AllGather", others, 2}, {"ReduceScatter", others, 1},
                     {"Broadcast", 1, 1},      {"SendRecv", 1, 2}};
  for (const auto& [name, bus_factor, memory_factor] : cases) {
    for (const auto& [place, buffers] : {std::pair("out", 2), std::pair("in", 1)}) {
      const Cost cost = CostOf(name, {{"bytes", "49176"}, {"place", place}});
      EXPECT_EQ(cost.wire_bytes, 49176) << name;
      EXPECT_DOUBLE_EQ(cost.bus_factor, bus_factor) << name;
      EXPECT_DOUBLE_EQ(cost.memory_bytes, memory_factor * 49176 * buffers / 2) << name << place;
    }
  }
}

TEST_P(WorkloadFactsTest, CollectivesNeedASecondRank) {
  for (const auto* name :
       {"AllToAll", "AllReduce", "AllGather", "ReduceScatter", "Broadcast", "SendRecv"}) {
    const std::string missing = GetParam() == Backend::kHost
                                    ? "needs at least 2 ranks, has 1 (--ranks 2)"
                                    : "needs at least 2 GPUs, one per rank; has 1";
    EXPECT_EQ(Spec(name).missing, TestRanks().size() > 1 ? "" : missing) << name;
  }
}

}  // namespace
}  // namespace overlapbench
