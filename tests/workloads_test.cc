// Every workload that this build and this machine have, in many settings: the right result is
// accepted, and a result that was never made, is left over, or has one wrong element is refused.
//
// The buffers that a workload's run changes hold its result: the tests do not know them in advance.
// A result is refused if any rank refuses it, as in a benchmark: in place, a rank may hold its part
// of the result before anything has run.
#include <algorithm>
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
#include "test_ranks.h"
#include "watched_stream.h"
#include "workload/data.h"
#include "workload_fixture.h"

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

class WorkloadsTest : public WorkloadFixture {
 protected:
  // Calls check(workload, name) for every workload in every setting, all ranks together. What
  // computes on one rank needs no second one.
  template <class Check>
  void ForEachWorkload(const Check& check) {
    for (const auto& spec : specs()) {
      if (!spec.missing.empty()) continue;
      if (spec.work_class == WorkClass::kCompute && TestRanks().size() > 1) continue;
      const auto all = SmallSettings(spec);
      EXPECT_FALSE(all.empty()) << spec.name << " was not tested at all";
      for (const auto& settings : all) {
        SCOPED_TRACE(spec.name + settings.NameSuffix());
        TakeAllocated();
        const auto workload = spec.make(settings);
        workload->Connect();
        buffers_ = TakeAllocated();
        check(*workload, spec.name + settings.NameSuffix());
        TestRanks().Barrier("the end of " + spec.name);
        if (HasFailure()) return;
      }
    }
  }

  std::unique_ptr<Workload> MakeWithItsBuffers(const std::string& name, const Values& values) {
    TakeAllocated();
    auto workload = Make(name, values);
    buffers_ = TakeAllocated();
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
    return TestRanks().Any(!verdict.fault.empty(), "agreeing on a verdict");
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
    const auto gate = device().CreateGate();
    const auto other = device().CreateStream({});
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

  std::vector<std::span<std::byte>> TakeAllocated() {
    return dynamic_cast<BatchingDevice&>(device()).TakeAllocated();
  }

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
    const bool spoilt = TestRanks().Any(SpoilWhatChanged(before), "whether a buffer changed");
    // PeerCopy leaves its result on another device. Transports other than NCCL's own allocate
    // memory that this device does not know of.
    if (!spoilt)
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

}  // namespace
}  // namespace overlapbench
