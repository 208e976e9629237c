// Arrays that go through the device in parts (comm/staged_array.h): slots, wrong parts, and what a
// result's fingerprint depends on. That each stage is a workload like others is
// workloads_test.cc's. And batches that host threads make (comm/supplied_batches.h).
#include "comm/staged_array.h"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "backends.h"
#include "comm/supplied_batches.h"
#include "recording_device.h"
#include "test_ranks.h"
#include "watched_stream.h"

namespace overlapbench {
namespace {

// An array of seven parts in two slots: a part takes the place of an earlier one.
class StagedArrayTest : public RanksOnEachBackend {
 protected:
  static constexpr long kParts = 7;
  static constexpr long kSlots = 2;
  static constexpr long kElements = 33;  // of a part

  void SetUp() override {
    RanksOnEachBackend::SetUp();
    if (IsSkipped()) return;
    device_ = std::make_unique<RecordingDevice>(OpenDevice());
    machine_ = std::make_unique<Machine>(Machine{*device_, TestRanks()});
    stream_ = device_->CreateStream({});
    Make({kParts, kSlots, kElements, 3});
  }
  void Make(const StagedShape& shape) {
    device_->TakeAllocated();
    const auto array = std::make_shared<StagedArray>(*machine_, shape);
    in_ = StagedArray::MakeStage(array, Stage::kIn);
    compute_ = StagedArray::MakeStage(array, Stage::kCompute);
    out_ = StagedArray::MakeStage(array, Stage::kOut);
    host_and_device_ = device_->TakeAllocated();
  }
  // From the last stage to the first, as a session does.
  void ResetAll() {
    for (Workload* stage : {out_.get(), compute_.get(), in_.get()}) stage->Reset(*stream_);
    Finish();
  }
  void RunPart(Workload& workload, long index) {
    workload.EnqueuePart(*stream_, {index, kParts});
    Finish();
  }
  // Each stage runs on the whole array.
  void RunWhole() {
    for (Workload* stage : {in_.get(), compute_.get(), out_.get()}) stage->Enqueue(*stream_);
    Finish();
  }
  // What is verified may be freed right after, so nothing may still run then.
  bool IsRefused() {
    WatchedStream watched(*stream_);
    const Verdict verdict = out_->Verify(watched);
    EXPECT_FALSE(watched.pending()) << "verifying left work on the stream: " << verdict.fault;
    return !verdict.fault.empty();
  }
  // Up to `ahead` parts are in before the first goes out.
  void RunAll(long ahead) {
    for (long part = 0; part < kParts + ahead - 1; ++part) {
      if (part < kParts) RunPart(*in_, part);
      const long last = part - (ahead - 1);
      if (last < 0) continue;
      RunPart(*compute_, last);
      RunPart(*out_, last);
    }
  }

  std::unique_ptr<RecordingDevice> device_;
  std::unique_ptr<Machine> machine_;
  std::unique_ptr<Stream> stream_;
  std::unique_ptr<Workload> in_;
  std::unique_ptr<Workload> compute_;
  std::unique_ptr<Workload> out_;
  std::vector<std::span<std::byte>> host_and_device_;

 private:
  void Finish() { stream_->Synchronize(kRanksPatience, "the test"); }
};
INSTANTIATE_ON_EACH_BACKEND(StagedArrayTest);

TEST_P(StagedArrayTest, TakesTheMemoryOfItsFootprint) {
  const Footprint footprint = StagedShape{kParts, kSlots, kElements, 3}.footprint();
  EXPECT_EQ(footprint.host_bytes, 2 * kParts * kElements * sizeof(float));
  EXPECT_EQ(footprint.device_bytes, kSlots * kElements * sizeof(float));
  ASSERT_EQ(host_and_device_.size(), 3U);
  for (const std::size_t on_host : {0, 1})
    EXPECT_EQ(host_and_device_[on_host].size(), footprint.host_bytes / 2);
  EXPECT_EQ(host_and_device_[2].size(), footprint.device_bytes);
}

// Else what is still on its way would arrive after the reset, and count as this run's.
TEST_P(StagedArrayTest, AResetWaitsForWhatIsEnqueued) {
  if (GetParam() == Backend::kCuda) GTEST_SKIP() << "its streams run no task of a test";
  Make({1, 1, kElements, 3});
  for (Workload* stage : {compute_.get(), in_.get()}) stage->Reset(*stream_);
  stream_->Enqueue([] { std::this_thread::sleep_for(std::chrono::milliseconds(20)); });
  for (Workload* stage : {in_.get(), compute_.get(), out_.get()}) stage->Enqueue(*stream_);
  out_->Reset(*stream_);
  EXPECT_TRUE(IsRefused());
}

TEST_P(StagedArrayTest, PassesThroughFewerSlotsThanParts) {
  for (const long ahead : {1L, kSlots}) {
    ResetAll();
    EXPECT_TRUE(IsRefused()) << "it was never made";
    RunAll(ahead);
    EXPECT_FALSE(IsRefused()) << ahead << " ahead";
  }
}

// The third part overwrote the first one in its slot before that was copied out.
TEST_P(StagedArrayTest, RefusesAnArrayOverwrittenInItsSlots) {
  ResetAll();
  RunAll(kSlots + 1);
  EXPECT_TRUE(IsRefused());
}

TEST_P(StagedArrayTest, RefusesAnErrorInAnyPart) {
  ASSERT_EQ(host_and_device_.size(), 3U);
  ResetAll();
  RunAll(1);
  const auto result = host_and_device_[1];  // the host's: input, result
  for (long part = 0; part < kParts; ++part) {
    for (const long element : {0L, kElements - 1}) {
      std::byte& spoilt = result[(part * kElements + element) * sizeof(float) + 2];
      spoilt ^= std::byte{0x40};
      EXPECT_TRUE(IsRefused()) << "part " << part << ", element " << element;
      spoilt ^= std::byte{0x40};
    }
  }
  EXPECT_FALSE(IsRefused());
}

TEST_P(StagedArrayTest, DetectsHowOftenAPartWasComputed) {
  ResetAll();
  RunAll(1);
  for (const int times : {0, 1, 2}) {
    RunPart(*in_, 4);
    for (int i = 0; i < times; ++i) RunPart(*compute_, 4);
    RunPart(*out_, 4);
    EXPECT_EQ(IsRefused(), times != 1) << times;
  }
}

TEST(MemoryKindNamed, IsWhatTheAxisSays) {
  EXPECT_EQ(MemoryKindNamed("pageable"), MemoryKind::kPageable);
  EXPECT_EQ(MemoryKindNamed("registered"), MemoryKind::kRegistered);
  EXPECT_EQ(MemoryKindNamed("pinned"), MemoryKind::kPinned);
}

TEST_P(StagedArrayTest, FingerprintDoesNotDependOnTheOrder) {
  ResetAll();
  RunAll(1);
  ASSERT_FALSE(IsRefused());
  const auto expected = out_->Fingerprint();
  ASSERT_TRUE(expected.has_value());
  EXPECT_FALSE(in_->Fingerprint().has_value());
  EXPECT_FALSE(compute_->Fingerprint().has_value());
  ResetAll();
  EXPECT_NE(out_->Fingerprint(), expected);
  RunAll(kSlots);
  EXPECT_EQ(out_->Fingerprint(), expected);
  Make({1, 1, kParts * kElements, 3});
  ResetAll();
  RunWhole();
  EXPECT_EQ(out_->Fingerprint(), expected);
  Make({1, 1, kParts * kElements, 4});
  ResetAll();
  RunWhole();
  EXPECT_NE(out_->Fingerprint(), expected);
}

// ---- Batches that host threads make (comm/supplied_batches.h)

class SuppliedBatchesTest : public RanksOnEachBackend {
 protected:
  static constexpr long kBatches = 5;

  std::unique_ptr<Workload> Make(SupplyStage stage, bool works = false) {
    return SuppliedBatches::MakeStage(
        std::make_shared<SuppliedBatches>(machine(), SupplyShape{.batches = kBatches,
                                                                 .elements = 33,
                                                                 .steps = 3,
                                                                 .make_time = kMakeTime,
                                                                 .works = works}),
        stage);
  }
  // Verifies what is left once every batch but `missing` has run.
  std::string FaultWithout(SupplyStage stage, long missing) {
    const auto workload = Make(stage);
    const auto stream = device().CreateStream({.on_host = stage == SupplyStage::kMake});
    const auto checked = device().CreateStream({});
    workload->Reset(*checked);
    checked->Synchronize(kRanksPatience, "the test");
    for (long batch = 0; batch < kBatches; ++batch)
      if (batch != missing) workload->EnqueuePart(*stream, {batch, kBatches});
    stream->Synchronize(kRanksPatience, "the test");
    return workload->Verify(*checked).fault;
  }

  static constexpr std::chrono::microseconds kMakeTime{300};
};
INSTANTIATE_ON_EACH_BACKEND(SuppliedBatchesTest);

constexpr SupplyStage kStages[] = {SupplyStage::kMake, SupplyStage::kCopy, SupplyStage::kCompute,
                                   SupplyStage::kConsume};

TEST_P(SuppliedBatchesTest, AreWholeOrTheSumOfTheirParts) {
  std::set<std::uint64_t> results;
  for (const SupplyStage stage : kStages) {
    SCOPED_TRACE(static_cast<int>(stage));
    for (const long missing : {0L, kBatches - 1})
      EXPECT_NE(FaultWithout(stage, missing), "") << missing;
    EXPECT_EQ(FaultWithout(stage, -1), "");
    const auto workload = Make(stage);
    const auto stream = device().CreateStream({.on_host = stage == SupplyStage::kMake});
    const auto checked = device().CreateStream({});
    workload->Reset(*checked);
    checked->Synchronize(kRanksPatience, "the test");
    workload->Enqueue(*stream);
    stream->Synchronize(kRanksPatience, "the test");
    EXPECT_EQ(workload->Verify(*checked).fault, "");
    EXPECT_EQ(
        workload->cost().copied_bytes,
        stage == SupplyStage::kCopy || stage == SupplyStage::kConsume ? kBatches * 33 * 4 : 0);
  }
}

// Whether a producer works or sleeps, a batch takes its time.
TEST_P(SuppliedBatchesTest, TakeTheirTimeToMake) {
  for (const bool works : {false, true}) {
    const auto workload = Make(SupplyStage::kMake, works);
    const auto stream = device().CreateStream({.on_host = true});
    const auto before = std::chrono::steady_clock::now();
    workload->Enqueue(*stream);
    stream->Synchronize(kRanksPatience, "the test");
    EXPECT_GE(std::chrono::steady_clock::now() - before, kBatches * kMakeTime) << works;
  }
}

}  // namespace
}  // namespace overlapbench
