// Every workload that this build and this machine have, in many settings: the right result is
// accepted, and a result that was never made, is left over, or has one wrong element is refused.
//
// Which of a workload's buffers hold its result is found out, not known: those that its run
// changes. A result is refused when any rank refuses it, as in a benchmark: in place, a rank may
// hold its part of the result before anything has run.
#include <algorithm>
#include <array>
#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
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
    {"CublasGemm/precision", "bf16,fp16,tf32,fp32,fp8"},
    {"Mlp/precision", "bf16,fp16,tf32,fp32"},
    {"TinyGemm/precision", "bf16,fp16,tf32,fp32,fp8"},
    {"array_bytes", "4,16380,1M"},
    {"batch", "32"},
    {"batch_bytes", "40004"},
    {"batch_elements", "517"},
    {"batches", "1,7"},
    {"block_steps", "1,50"},
    {"blocks", "1,3,64"},
    {"buffers", "1,2,3,5"},
    {"bytes", "48,49176,786432"},
    {"columns", "33,1024,5001"},
    {"count", "1,4099"},
    {"delay_us", "1,300"},
    {"dim", "64"},
    {"direction", "forward,backward"},
    {"elements", "240,49200"},
    {"engine", "copy,sm"},
    {"form", "tanh,erf"},
    {"fragments", "1,3,12,2049"},
    {"grid", "1x1,3x2,4x4"},
    {"intensity", "1,7"},
    {"launches", "1,3,48"},
    {"layers", "1,3"},
    {"make_us", "100"},
    {"matrix_bytes", "64K"},
    {"memory", "pinned,registered,pageable"},
    {"n", "64,80"},
    {"offset", "0,3"},
    {"pipeline_streams", "1,2,3,8,16"},
    {"place", "out,in"},
    {"precision", "bf16,fp16,fp32"},
    {"prefetch", "1,3"},
    {"repeat", "1,2"},
    {"second_delay_us", "1,300"},
    {"sm_target", "0,16"},
    {"source", "work,wait"},
    {"steps", "1,3"},
    {"supply_batches", "1,7"},
    {"tie", "events,host"},
    {"total_steps", "48,144"},
    {"type", "float32,float16,bfloat16,float64,int32"},
    {"waves", "1,3"},
    {"work", "tile,full"},
    {"workers", "0,1,3"},
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
  using Values = std::map<std::string, std::string>;
  // At the default value of every axis that `values` does not name.
  Settings SettingsOf(const std::string& name, const Values& values) {
    Settings settings;
    for (const auto& axis : Spec(name).axes) {
      const auto own = values.find(axis.name);
      settings.Set(axis, own == values.end() ? axis.values.front() : axis.canonical(own->second));
    }
    return settings;
  }
  Cost CostOf(const std::string& name, const Values& values) {
    return Spec(name).make(SettingsOf(name, values))->cost();
  }
  // Of the result of one run, which must be right.
  std::optional<std::uint64_t> FingerprintOfRun(const std::string& name, const Values& values) {
    const auto workload = Spec(name).make(SettingsOf(name, values));
    Reset(*workload);
    Run(*workload);
    EXPECT_FALSE(Refused(*workload)) << name;
    return workload->Fingerprint();
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
  using Bytes = std::vector<std::vector<std::byte>>;
  Bytes ReadBuffers() { return ReadBuffersThrough(stream()); }
  // What its buffers hold while its run is enqueued on a stream that does not come to it.
  Bytes ReadBuffersBehindAGate(Workload& workload) {
    const auto gate = device_->CreateGate();
    const auto other = device_->CreateStream(0);
    gate->Arm(stream());
    workload.Enqueue(stream());
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    Bytes all = ReadBuffersThrough(*other);
    gate->Release();
    Finish();
    return all;
  }
  // Changes the last byte in which a buffer differs from what it was before.
  bool SpoilWhatChanged(const Bytes& before) {
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
  Bytes ReadBuffersThrough(Stream& through) {
    Bytes all;
    for (const auto& buffer : buffers_) {
      all.emplace_back(buffer.size());
      through.Copy(all.back().data(), buffer.data(), buffer.size());
    }
    through.Synchronize(kRanksPatience, "reading buffers");
    return all;
  }
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

// Whatever streams of its own it uses. Where it cannot wait, it says so. The first run of a kernel
// or a collective must not stand behind a gate.
TEST_P(WorkloadsTest, DoNothingBeforeTheirStreamComesToThem) {
  if (GetParam() == Backend::kCuda)
    GTEST_SKIP() << "streams may share a queue of the GPU, where reading would wait for the gate";
  ForEachWorkload([this](Workload& workload, const std::string& /*name*/) {
    if (workload.enqueue_waits()) return;
    Reset(workload);
    Run(workload);
    Reset(workload);
    const Bytes before = ReadBuffers();
    EXPECT_TRUE(ReadBuffersBehindAGate(workload) == before);
    EXPECT_FALSE(Refused(workload));
  });
}

// What a pipeline is held against is the same work in another order.
TEST_P(WorkloadsTest, LeaveTheSameFingerprintInEveryOrder) {
  struct {
    const char* in_turn;
    const char* at_once;
    Values values;
    Values other_values;
  } const cases[] = {
      {"Sequential",
       "Pipelined",
       {{"elements", "240"}, {"intensity", "3"}, {"pipeline_streams", "4"}},
       {{"elements", "240"}, {"intensity", "4"}, {"pipeline_streams", "4"}}},
      {"ComputeTransferInTurn",
       "ComputeTransfer",
       {{"batches", "5"}, {"batch_elements", "16"}, {"intensity", "3"}, {"buffers", "3"}},
       {{"batches", "5"}, {"batch_elements", "16"}, {"intensity", "4"}, {"buffers", "3"}}}};
  for (const auto& [in_turn, at_once, values, other_values] : cases) {
    const auto expected = FingerprintOfRun(in_turn, values);
    ASSERT_TRUE(expected.has_value()) << in_turn;
    EXPECT_EQ(FingerprintOfRun(at_once, values), expected) << at_once;
    EXPECT_NE(FingerprintOfRun(at_once, other_values), expected) << at_once;
  }
}

TEST_P(WorkloadsTest, SayWhyACombinationDoesNotExist) {
  struct {
    const char* name;
    Values values;
    std::string reason;
  } const cases[] = {
      {"HostToDevice", {{"bytes", "6"}}, "bytes must be a multiple of 4"},
      {"DeviceCopy", {{"bytes", "7"}}, "bytes must be a multiple of 4"},
      {"DeviceToHost",
       {{"engine", "sm"}, {"memory", "pageable"}},
       "an SM cannot reach pageable memory"},
      {"StreamKernel", {{"array_bytes", "2"}}, "array_bytes must be a multiple of 4"},
      {"Pipelined",
       {{"elements", "1048576"}, {"pipeline_streams", "3"}},
       "elements must be a multiple of pipeline_streams"},
      {"Sequential", {{"intensity", "16777216"}}, "intensity must be at most 2^24 - 256"},
      {"Fragmented",
       {{"bytes", "64"}, {"fragments", "32"}},
       "bytes must be a multiple of 4 * fragments"},
      {"Fragmented", {{"call", "graph"}}, device().NoGraphs()},
      {"Fragmented", {{"call", "batch"}}, device().NoBatchCopy()},
      {"EmptyKernel", {{"call", "graph"}}, device().NoGraphs()},
      {"Pieces", {{"call", "graph"}}, device().NoGraphs()},
      {"Pieces",
       {{"total_steps", "100"}, {"launches", "16"}},
       "total_steps must be a multiple of launches"},
      {"Supply", {{"batch_bytes", "6"}}, "batch_bytes must be a multiple of 4"}};
  for (const auto& [name, values, reason] : cases)
    EXPECT_EQ(Spec(name).excluded(SettingsOf(name, values)), reason) << name;
}

TEST_P(WorkloadsTest, HaveOneKindOfHostMemoryOnTheHost) {
  const std::string reason =
      GetParam() == Backend::kHost
          ? "all memory is alike on the host backend, where memory:pinned stands for it"
          : "";
  for (const auto* name : {"HostToDevice", "DeviceToHost", "Sequential", "ComputeTransfer"}) {
    EXPECT_EQ(Spec(name).excluded(SettingsOf(name, {{"memory", "pinned"}})), "") << name;
    for (const auto* kind : {"registered", "pageable"})
      EXPECT_EQ(Spec(name).excluded(SettingsOf(name, {{"memory", kind}})), reason) << name;
  }
}

// The gate must not hold what they wait for.
TEST_P(WorkloadsTest, SayWhenEnqueueingWaits) {
  struct {
    const char* name;
    Values values;
    bool waits;
  } const cases[] = {{"HostToDevice", {{"memory", "registered"}}, false},
                     {"HostToDevice", {{"memory", "pageable"}}, true},
                     {"DeviceCopy", {}, false},
                     {"Pipelined", {{"memory", "pinned"}}, false},
                     {"Pipelined", {{"memory", "pageable"}}, true},
                     {"PipelineIn", {{"memory", "pageable"}}, true},
                     {"ComputeTransfer", {{"tie", "events"}}, false},
                     {"ComputeTransfer", {{"tie", "host"}}, true},
                     {"ComputeTransferByEvents", {{"tie", "host"}}, false},
                     {"Fragmented", {}, true},
                     {"Supply", {}, true},
                     {"EmptyKernel", {}, false},
                     {"RoundTrip", {}, true}};
  for (const auto& [name, values, waits] : cases)
    EXPECT_EQ(Spec(name).make(SettingsOf(name, values))->enqueue_waits(), waits) << name;
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
  EXPECT_EQ(CostOf("DeviceCopy", {{"bytes", "1M"}}).moved_bytes, 2 << 20);
  EXPECT_EQ(CostOf("Fragmented", {{"bytes", "1M"}, {"fragments", "16"}}).copied_bytes, 1 << 20);
  const Cost pipeline = CostOf("Pipelined", {{"elements", "1024"}, {"intensity", "3"}});
  EXPECT_EQ(pipeline.copied_bytes, 2.0 * 1024 * 4);
  EXPECT_EQ(pipeline.flops, 2.0 * 1024 * 3);
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
