// Every workload that this build and this machine have, in many settings: the right result is
// accepted, and a result that was never made, is left over, or has one wrong element is refused.
//
// Which of a workload's buffers hold its result is found out, not known: those that its run
// changes. A result is refused when any rank refuses it, as in a benchmark: in place, a rank may
// hold its part of the result before anything has run.
#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "backends.h"
#include "benchmarks/catalog.h"
#include "recording_device.h"
#include "test_ranks.h"

namespace overlapbench {
namespace {

// Small sizes, some of them odd; all can be divided among two and among three ranks. An axis that
// is not here is tested with its default values; "Workload/axis" is for that workload alone.
const std::map<std::string, std::string> kValues = {
    {"CublasGemm/precision", "bf16,fp16,tf32,fp32"},
    {"array_bytes", "4,16380,1M"},
    {"blocks", "1,3,64"},
    {"bytes", "48,49176,786432"},
    {"columns", "33,1024,5001"},
    {"count", "1,4099"},
    {"delay_us", "1,300"},
    {"direction", "forward,backward"},
    {"form", "tanh,erf"},
    {"grid", "1x1,3x2,4x4"},
    {"matrix_bytes", "64K"},
    {"memory", "pinned,pageable"},
    {"n", "64,80"},
    {"offset", "0,3"},
    {"place", "out,in"},
    {"precision", "bf16,fp16,fp32"},
    {"repeat", "1,2"},
    {"second_delay_us", "1,300"},
    {"sm_target", "0,16"},
    {"type", "float32,float16,bfloat16,float64,int32"},
    {"work", "tile,full"},
};

std::vector<Settings> SmallSettings(const WorkloadSpec& spec) {
  std::vector<Axis> axes = spec.axes;
  for (auto& axis : axes) {
    auto values = kValues.find(spec.name + "/" + axis.name);
    if (values == kValues.end()) values = kValues.find(axis.name);
    if (values != kValues.end()) axis.values = ReadValues(axis, values->second);
  }
  std::vector<Settings> all = Combinations(axes);
  if (spec.excluded)
    std::erase_if(all, [&](const auto& one) { return !spec.excluded(one).empty(); });
  return all;
}

class WorkloadsTest : public RanksOnEachBackend {
 protected:
  void SetUp() override {
    RanksOnEachBackend::SetUp();
    if (IsSkipped()) return;
    device_ = std::make_unique<RecordingDevice>(
        GetParam() == Backend::kHost ? OpenHostDevice(2) : OpenCudaDevice(ordinal()));
    machine_ = std::make_unique<Machine>(Machine{*device_, TestRanks()});
    FillRegistry(registry_, *machine_);
    stream_ = device_->CreateStream(0);
  }

  // Calls check(workload, name) for every workload in every setting, all ranks together.
  template <class Check>
  void ForEachWorkload(const Check& check) {
    for (const auto& spec : registry_.specs()) {
      if (!spec.missing.empty()) continue;
      const auto all = SmallSettings(spec);
      EXPECT_FALSE(all.empty()) << spec.name << " was not tested at all";
      for (const auto& settings : all) {
        SCOPED_TRACE(spec.name + settings.NameSuffix());
        device_->TakeAllocated();
        const auto workload = spec.make(settings);
        buffers_ = device_->TakeAllocated();
        check(*workload, spec.name);
        TestRanks().Barrier("the end of " + spec.name);
        if (HasFailure()) return;
      }
    }
  }

  const WorkloadSpec& Spec(const std::string& name) { return registry_.Find(name); }
  // At the default value of every axis that `values` does not name.
  Cost CostOf(const std::string& name, const std::map<std::string, std::string>& values) {
    Settings settings;
    for (const auto& axis : Spec(name).axes) {
      const auto own = values.find(axis.name);
      settings.Set(axis, own == values.end() ? axis.values.front() : axis.canonical(own->second));
    }
    return Spec(name).make(settings)->cost();
  }

  void Reset(Workload& workload) {
    workload.Reset(stream());
    Finish();
  }
  void Run(Workload& workload) {
    workload.Enqueue(stream());
    Finish();
  }
  // Whether any rank refuses the result.
  bool Refused(Workload& workload) {
    const Verdict verdict = workload.Verify(stream());
    std::array refused = {verdict.fault.empty() ? 0.0 : 1.0};
    TestRanks().Max(refused, "agreeing on a verdict");
    return refused[0] != 0;
  }
  std::vector<std::vector<std::byte>> ReadBuffers() {
    std::vector<std::vector<std::byte>> all;
    for (const auto& buffer : buffers_) {
      all.emplace_back(buffer.size());
      stream().Copy(all.back().data(), buffer.data(), buffer.size());
    }
    Finish();
    return all;
  }
  // Changes the last byte in which a buffer differs from what it was before.
  bool SpoilWhatChanged(const std::vector<std::vector<std::byte>>& before) {
    const auto after = ReadBuffers();
    for (std::size_t i = 0; i < after.size(); ++i) {
      const auto [was, is] = std::mismatch(before[i].rbegin(), before[i].rend(), after[i].rbegin());
      if (is == after[i].rend()) continue;
      const std::byte spoilt = *is ^ std::byte{0x80};
      stream().Copy(&buffers_[i][is.base() - after[i].begin() - 1], &spoilt, 1);
      Finish();
      return true;
    }
    return false;
  }

 private:
  Stream& stream() { return *stream_; }
  void Finish() { stream().Synchronize(kRanksPatience, "the test"); }

  std::unique_ptr<RecordingDevice> device_;
  std::unique_ptr<Machine> machine_;
  Registry registry_;
  std::unique_ptr<Stream> stream_;
  std::vector<std::span<std::byte>> buffers_;
};
INSTANTIATE_ON_EACH_BACKEND(WorkloadsTest);

TEST_P(WorkloadsTest, TakeTheRightResult) {
  ForEachWorkload([this](Workload& workload, const std::string& /*name*/) {
    Reset(workload);
    Run(workload);
    EXPECT_FALSE(Refused(workload));
  });
}

TEST_P(WorkloadsTest, RefuseAResultThatWasNeverMade) {
  ForEachWorkload([this](Workload& workload, const std::string& /*name*/) {
    Reset(workload);
    EXPECT_TRUE(Refused(workload));
  });
}

TEST_P(WorkloadsTest, RefuseAResultThatIsLeftOver) {
  ForEachWorkload([this](Workload& workload, const std::string& /*name*/) {
    Reset(workload);
    Run(workload);
    Reset(workload);
    EXPECT_TRUE(Refused(workload));
  });
}

TEST_P(WorkloadsTest, RefuseOneWrongElement) {
  ForEachWorkload([this](Workload& workload, const std::string& name) {
    Reset(workload);
    const auto before = ReadBuffers();
    Run(workload);
    std::array spoilt = {SpoilWhatChanged(before) ? 1.0 : 0.0};
    TestRanks().Max(spoilt, "whether a buffer changed");
    // PeerCopy alone leaves its result on another device.
    if (spoilt[0] == 0)
      ASSERT_EQ(name, "PeerCopy") << "it changed no buffer of this device";
    else
      EXPECT_TRUE(Refused(workload));
  });
}

TEST_P(WorkloadsTest, CountWhatTheyCost) {
  const Cost tile = CostOf("Gemm", {{"n", "64"}, {"grid", "3x2"}, {"work", "tile"}});
  EXPECT_EQ(tile.flops, 2.0 * 48 * 32 * 64);
  EXPECT_EQ(tile.moved_bytes, 4.0 * (32 * 64 + 64 * 48 + 32 * 48));
  const Cost full = CostOf("Gemm", {{"n", "64"}, {"grid", "3x2"}, {"work", "full"}});
  EXPECT_EQ(full.flops, 2.0 * 64 * 64 * 64);
  EXPECT_EQ(full.moved_bytes, 4.0 * 3 * 64 * 64);
  const Cost triad = CostOf("StreamKernel", {{"array_bytes", "1M"}});
  EXPECT_EQ(triad.moved_bytes, 3.0 * (1 << 20));
  EXPECT_EQ(triad.flops, 2.0 * (1 << 18));
  const Cost gelu = CostOf("GeluFused", {{"count", "1000"}, {"precision", "fp32"}});
  EXPECT_EQ(gelu.moved_bytes, 2.0 * 4 * 1000);
  EXPECT_EQ(CostOf("HostToDevice", {{"bytes", "1M"}}).copied_bytes, 1 << 20);
  EXPECT_EQ(CostOf("Delay", {}).flops, 0);
}

// nccl-tests, doc/PERFORMANCE.md.
TEST_P(WorkloadsTest, CollectivesCountAsNcclTestsDo) {
  if (TestRanks().size() == 1) GTEST_SKIP() << "collectives need two ranks";
  const double others = (TestRanks().size() - 1.0) / TestRanks().size();
  const std::map<std::string, double> bus_factors = {
      {"AllToAll", others},      {"AllReduce", 2 * others}, {"AllGather", others},
      {"ReduceScatter", others}, {"Broadcast", 1},          {"SendRecv", 1}};
  for (const auto& [name, bus_factor] : bus_factors) {
    const Cost cost = CostOf(name, {{"bytes", "49176"}});
    EXPECT_EQ(cost.wire_bytes, 49176) << name;
    EXPECT_DOUBLE_EQ(cost.bus_factor, bus_factor) << name;
  }
}

TEST_P(WorkloadsTest, CollectivesNeedASecondRank) {
  for (const auto* name :
       {"AllToAll", "AllReduce", "AllGather", "ReduceScatter", "Broadcast", "SendRecv"}) {
    EXPECT_EQ(Spec(name).missing.empty(), TestRanks().size() > 1) << name;
  }
}

}  // namespace
}  // namespace overlapbench
