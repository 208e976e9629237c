// Every workload that this build and this machine have, in many settings: the right result is
// accepted, and a result that was never made, is left over, or has one wrong element is refused.
//
// The buffers that a workload's run changes hold its result: the tests do not know them in advance.
// A result is refused if any rank refuses it, as in a benchmark: in place, a rank may hold its part
// of the result before anything has run.
#include <algorithm>
#include <array>
#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "backends.h"
#include "benchmarks/catalog.h"
#include "comm/staged_array.h"
#include "device/watches.h"
#include "recording_device.h"
#include "test_ranks.h"
#include "watched_stream.h"
#include "workload/data.h"

namespace overlapbench {
namespace {

// Small sizes, some of them odd; all can be divided among two and among three ranks. An axis that
// is not here is tested with its default values; "Workload/axis" is for that workload alone.
const std::map<std::string, std::string> kValues = {
    {"CublasGemm/precision", "bf16,fp16,tf32,fp32,fp8"},
    {"Mlp/precision", "bf16,fp16,tf32,fp32"},
    {"array_bytes", "4,16380,1M"},
    {"batch", "32"},
    {"block_steps", "1,50"},
    {"blocks", "1,3,64"},
    {"bytes", "48,96,49176,786432"},
    {"chain_bytes", "16,64K"},
    {"chain_steps", "1,3,1000"},
    {"columns", "33,1024,5001"},
    {"count", "1,4099"},
    {"delay_us", "1,300"},
    {"dim", "64"},
    {"direction", "forward,backward"},
    {"engine", "copy,sm"},
    {"fma_steps", "1,50"},
    {"form", "tanh,erf"},
    {"fragments", "1,3,12,2049"},
    {"grid", "1x1,3x2,4x4"},
    {"heads", "1,3"},
    {"l2_bytes", "16K,48K,1M"},
    {"l2_passes", "1,5,17"},
    {"launches", "1,3,48"},
    {"layers", "1,3"},
    {"matrix_bytes", "64K"},
    {"memory", "pinned,registered,pageable"},
    {"n", "64,80"},
    {"offset", "0,3"},
    {"part_elements", "1,1027"},
    {"parts", "1,3"},
    {"place", "out,in"},
    {"precision", "bf16,fp16,fp32"},
    {"repeat", "1,2"},
    {"second_delay_us", "1,300"},
    {"sequence", "128,384"},
    {"shared_steps", "1,130"},
    {"sm_target", "0,16"},
    {"stand_in_bytes", "64K"},
    {"stand_in_sms", "1,3"},
    {"stand_in_span", "64K"},
    {"stand_in_us", "50"},
    {"steps", "1,3"},
    {"steps_added", "1,7"},
    {"total_steps", "48,144"},
    {"type", "float32,float16,bfloat16,float64,int32"},
    {"waves", "1,3"},
    {"work", "tile,full"},
};

std::vector<Settings> SmallSettings(const WorkloadSpec& spec) {
  std::vector<Axis> axes = spec.axes;
  for (auto& axis : axes) {
    auto values = kValues.find(spec.name + "/" + axis.name);
    if (values == kValues.end()) values = kValues.find(axis.name);
    if (values != kValues.end()) axis.values = ReadValues(axis, values->second);
    if (axis.name == "transport" && axis.values.front() == "nccl")
      axis.values = ReadValues(axis, "nccl,nccl_ce,nccl_sym,copy,sm_load,sm_store,sm_bulk");
  }
  std::vector<Settings> all = Combinations(axes);
  if (spec.excluded)
    std::erase_if(all, [&](const auto& one) { return !spec.excluded(one).empty(); });
  return all;
}

// Copies a batch piece by piece on the host, whose device has no such call.
class BatchingDevice : public RecordingDevice {
 public:
  explicit BatchingDevice(std::unique_ptr<Device> device)
      : RecordingDevice(std::move(device)), info_(RecordingDevice::info()) {
    info_.no_batch_copy = "";
  }
  [[nodiscard]] const DeviceInfo& info() const override { return info_; }
  void CopyBatch(Stream& stream, std::span<const CopyPiece> pieces) override {
    if (backend() == Backend::kCuda) return RecordingDevice::CopyBatch(stream, pieces);
    for (const auto& [destination, source, bytes] : pieces) stream.Copy(destination, source, bytes);
  }

 private:
  DeviceInfo info_;
};

StagedShape ShapeOf(const Settings& settings) {
  const long parts = settings.Integer("parts");
  return {parts, parts, settings.Integer("part_elements"),
          static_cast<int>(settings.Integer("steps_added")),
          MemoryKindNamed(settings.Text("memory"))};
}

// A stage of an array as a separate workload; otherwise only scenarios make one.
WorkloadSpec StageSpec(const Machine& machine, const char* name, Stage stage) {
  WorkloadSpec spec;
  spec.name = name;
  spec.axes = {IntegerAxis("parts", "", 1, 1000, "3"),
               IntegerAxis("part_elements", "", 1, 1L << 20, "1024"),
               IntegerAxis("steps_added", "", 1, 1000, "3"),
               ChoiceAxis("memory", "", {"pinned", "registered", "pageable"}, "pinned")};
  spec.excluded = [&device = machine.device](const Settings& settings) {
    return NoSuchMemory(device, settings);
  };
  spec.make = [machine, stage](const Settings& settings) {
    return StagedArray::MakeStage(std::make_shared<StagedArray>(machine, ShapeOf(settings)), stage);
  };
  return spec;
}

class WorkloadsTest : public RanksOnEachBackend {
 protected:
  void SetUp() override {
    RanksOnEachBackend::SetUp();
    if (IsSkipped()) return;
    device_ = std::make_unique<BatchingDevice>(
        GetParam() == Backend::kHost ? OpenHostDevice(2) : OpenCudaDevice(ordinal()));
    machine_ = std::make_unique<Machine>(Machine{*device_, TestRanks()});
    FillRegistry(registry_, *machine_);
    registry_.Add({StageSpec(*machine_, "StageIn", Stage::kIn),
                   StageSpec(*machine_, "StageCompute", Stage::kCompute),
                   StageSpec(*machine_, "StageOut", Stage::kOut)});
    stream_ = device_->CreateStream({});
  }

  // Calls check(workload, name) for every workload in every setting, all ranks together. What
  // computes on one rank needs no second one.
  template <class Check>
  void ForEachWorkload(const Check& check) {
    for (const auto& spec : registry_.specs()) {
      if (!spec.missing.empty()) continue;
      if (spec.work_class == WorkClass::kCompute && TestRanks().size() > 1) continue;
      const auto all = SmallSettings(spec);
      EXPECT_FALSE(all.empty()) << spec.name << " was not tested at all";
      for (const auto& settings : all) {
        SCOPED_TRACE(spec.name + settings.NameSuffix());
        device_->TakeAllocated();
        const auto workload = spec.make(settings);
        workload->Connect();
        buffers_ = device_->TakeAllocated();
        check(*workload, spec.name + settings.NameSuffix());
        TestRanks().Barrier("the end of " + spec.name);
        if (HasFailure()) return;
      }
    }
  }

  const WorkloadSpec& Spec(const std::string& name) { return registry_.Find(name); }
  std::unique_ptr<ActivityWatch> Watch() { return device_->watches().Activities(); }
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
  Cost CostOf(const std::string& name, const Values& values) { return Make(name, values)->cost(); }
  std::unique_ptr<Workload> Make(const std::string& name, const Values& values) {
    auto workload = Spec(name).make(SettingsOf(name, values));
    workload->Connect();
    return workload;
  }
  std::unique_ptr<Workload> MakeWithItsBuffers(const std::string& name, const Values& values) {
    device_->TakeAllocated();
    auto workload = Make(name, values);
    buffers_ = device_->TakeAllocated();
    return workload;
  }
  // Of the result of one run, which must be right.
  std::optional<std::uint64_t> FingerprintOfRun(const std::string& name, const Values& values) {
    const auto workload = Make(name, values);
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
  void RunPart(Workload& workload, long index, long count) {
    workload.EnqueuePart(stream(), {index, count});
    Finish();
  }
  // Whether any rank refuses the result. What is verified may be freed right after, so nothing may
  // still run then.
  bool Refused(Workload& workload) {
    WatchedStream watched(stream());
    const Verdict verdict = workload.Verify(watched);
    EXPECT_FALSE(watched.pending()) << "verifying left work on the stream: " << verdict.fault;
    std::array refused = {verdict.fault.empty() ? 0.0 : 1.0};
    TestRanks().Max(refused, "agreeing on a verdict");
    return refused[0] != 0;
  }
  // Buffers hold what freed ones left.
  void ClearBuffers() {
    for (std::size_t i = 0; i < buffers_.size(); ++i)
      Write(i, std::vector(buffers_[i].size(), std::byte{0xff}));
  }
  using Bytes = std::vector<std::vector<std::byte>>;
  void Write(std::size_t buffer, const std::vector<std::byte>& bytes) {
    stream().Copy(buffers_[buffer].data(), bytes.data(), bytes.size());
    Finish();
  }
  Bytes ReadBuffers() { return ReadBuffersThrough(stream()); }
  // The contents of its buffers while a gate holds its enqueued run.
  Bytes ReadBuffersBehindAGate(Workload& workload) {
    const auto gate = device_->CreateGate();
    const auto other = device_->CreateStream({});
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

  std::unique_ptr<BatchingDevice> device_;
  std::unique_ptr<Machine> machine_;
  Registry registry_;
  std::unique_ptr<Stream> stream_;
  std::vector<std::span<std::byte>> buffers_;
};
INSTANTIATE_ON_EACH_BACKEND(WorkloadsTest);

TEST_P(WorkloadsTest, AcceptTheCorrectResult) {
  ForEachWorkload([this](Workload& workload, const std::string& /*name*/) {
    Reset(workload);
    Run(workload);
    EXPECT_FALSE(Refused(workload));
  });
}

TEST_P(WorkloadsTest, RefuseAMissingResult) {
  ForEachWorkload([this](Workload& workload, const std::string& /*name*/) {
    Reset(workload);
    EXPECT_TRUE(Refused(workload));
  });
}

TEST_P(WorkloadsTest, RefuseALeftoverResult) {
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
    // PeerCopy leaves its result on another device. Transports other than NCCL's own allocate
    // memory that this device does not know of.
    if (spoilt[0] == 0)
      ASSERT_TRUE(name.starts_with("PeerCopy") || name.find("/transport:") != std::string::npos)
          << "it changed no buffer of this device";
    else
      EXPECT_TRUE(Refused(workload));
  });
}

// Of large results some rows are compared, among them the first and the last.
TEST_P(WorkloadsTest, CompareTheFirstRowTheLastAndSomeBetween) {
  if (TestRanks().size() > 1) GTEST_SKIP() << "what computes on one rank needs no second one";
  struct {
    const char* name;
    Values values;
    long row_bytes;
  } const cases[] = {
      {"SoftmaxFused", {{"matrix_bytes", "64K"}, {"columns", "256"}, {"precision", "fp32"}}, 1024},
      {"SoftmaxUnfused",
       {{"matrix_bytes", "64K"}, {"columns", "512"}, {"precision", "fp16"}},
       1024},
      {"Attention", {{"heads", "2"}, {"sequence", "128"}}, 256}};
  for (const auto& [name, values, row_bytes] : cases) {
    SCOPED_TRACE(name);
    const auto workload = MakeWithItsBuffers(name, values);
    Reset(*workload);
    const Bytes before = ReadBuffers();
    Run(*workload);
    const Bytes after = ReadBuffers();
    std::size_t result = 0;
    while (after.at(result) == before[result]) ++result;
    const long rows = std::ssize(after[result]) / row_bytes;
    for (const auto& [first, end] : {std::pair(0L, 1L), {rows - 1, rows}, {1L, rows - 1}}) {
      std::vector<std::byte> spoilt = after[result];
      for (long row = first; row < end; ++row) spoilt[(row + 1) * row_bytes - 1] ^= std::byte{0x80};
      Write(result, spoilt);
      EXPECT_TRUE(Refused(*workload)) << "rows " << first << " to " << end;
    }
    Write(result, after[result]);
    EXPECT_FALSE(Refused(*workload));
  }
}

TEST_P(WorkloadsTest, SayWhenTheyAreCopyEngines) {
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

// Two inputs with the same values would hide one that is read in place of the other. Memory that is
// filled with one byte is no input.
TEST_P(WorkloadsTest, HaveInputsThatDiffer) {
  ForEachWorkload([this](Workload& workload, const std::string& /*name*/) {
    ClearBuffers();
    Reset(workload);
    std::map<std::vector<std::byte>, std::size_t> seen;
    const Bytes all = ReadBuffers();
    for (std::size_t i = 0; i < all.size(); ++i) {
      constexpr std::size_t kBegin = 64;
      if (all[i].size() < kBegin) continue;
      const std::vector begin(all[i].begin(), all[i].begin() + kBegin);
      const bool is_filled = std::ranges::count(begin, begin[0]) == std::ssize(begin);
      const auto [other, is_new] = seen.try_emplace(begin, i);
      EXPECT_TRUE(is_filled || is_new) << "buffers " << other->second << " and " << i;
    }
  });
}

// This holds for any internal streams of a workload. One that cannot wait declares it. The first
// run of a kernel or a collective must not be behind a gate.
TEST_P(WorkloadsTest, DoNothingBeforeTheirTurnOnTheStream) {
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

// In any order, all parts together make the whole, and none may be missing.
TEST_P(WorkloadsTest, EqualTheSumOfTheirParts) {
  struct {
    const char* name;
    Values values;
    long parts;
  } const cases[] = {{"HostToDevice", {{"bytes", "48"}}, 3},
                     {"HostToDevice", {{"bytes", "49152"}, {"engine", "sm"}}, 4},
                     {"DeviceToHost", {{"bytes", "48"}}, 3},
                     {"DeviceCopy", {{"bytes", "48"}}, 3},
                     {"EmptyKernel", {{"launches", "3"}}, 3},
                     {"Pieces", {{"total_steps", "48"}, {"launches", "3"}}, 3},
                     {"StageIn", {{"parts", "3"}}, 3},
                     {"StageCompute", {{"parts", "3"}}, 3},
                     {"StageOut", {{"parts", "3"}}, 3}};
  for (const auto& [name, values, parts] : cases) {
    SCOPED_TRACE(name);
    const auto workload = Make(name, values);
    for (long missing = -1; missing < parts; ++missing) {
      Reset(*workload);
      for (long part = parts - 1; part >= 0; --part)
        if (part != missing) RunPart(*workload, part, parts);
      EXPECT_EQ(Refused(*workload), missing >= 0) << "without part " << missing;
    }
    Reset(*workload);
    Run(*workload);
    EXPECT_FALSE(Refused(*workload)) << "as a whole";
  }
}

TEST_P(WorkloadsTest, RefusePartsByDefault) {
  const auto workload = Make("StreamKernel", {{"array_bytes", "1M"}});
  EXPECT_THROW(RunPart(*workload, 0, 2), Error);
}

TEST_P(WorkloadsTest, FingerprintOnlyTheirResult) {
  EXPECT_EQ(FingerprintOfRun("StageOut", {}), FingerprintOfRun("StageOut", {}));
  EXPECT_NE(FingerprintOfRun("StageOut", {}), FingerprintOfRun("StageOut", {{"steps_added", "4"}}));
  EXPECT_FALSE(FingerprintOfRun("StageIn", {}).has_value());
}

TEST_P(WorkloadsTest, GiveTheReasonForExcludedCombinations) {
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

TEST_P(WorkloadsTest, CopyInBatchesWhereTheDeviceCan) {
  Registry registry;
  Machine machine{device(), TestRanks()};
  FillRegistry(registry, machine);
  const auto settings = SettingsOf("BatchCopy", {{"bytes", "64"}, {"fragments", "16"}});
  EXPECT_EQ(registry.Find("BatchCopy").excluded(settings), device().info().no_batch_copy);
}

TEST_P(WorkloadsTest, HaveOneKindOfHostMemoryOnTheHost) {
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
TEST_P(WorkloadsTest, SayWhenEnqueueingWaits) {
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

TEST_P(WorkloadsTest, ReportTheirCost) {
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

TEST_P(WorkloadsTest, CollectivesNeedTheMemoryOfTheirBuffersAlone) {
  if (TestRanks().size() == 1) GTEST_SKIP() << "collectives need two ranks";
  for (const auto& [place, buffers] : {std::pair{"out", 2U}, std::pair{"in", 1U}}) {
    const Footprint footprint =
        Spec("AllReduce").footprint(SettingsOf("AllReduce", {{"bytes", "1M"}, {"place", place}}));
    EXPECT_EQ(footprint.device_bytes, buffers << 20) << place;
    EXPECT_EQ(footprint.host_bytes, 0U) << place;
  }
}

// nccl-tests, doc/PERFORMANCE.md. Memory is read and written by this rank and by its peers.
TEST_P(WorkloadsTest, CollectivesCountBytesAsNcclTests) {
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

TEST_P(WorkloadsTest, CollectivesNeedASecondRank) {
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
