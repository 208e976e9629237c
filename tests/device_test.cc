// Streams, events, gates and buffers mean the same on every backend.
#include "device/device.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "devices.h"

namespace overlapbench {
namespace {

using std::chrono_literals::operator""ms;

INSTANTIATE_ON_EACH_BACKEND(DeviceTest);

TEST_P(DeviceTest, CopiesRunInOrderThroughEveryKindOfMemory) {
  const auto stream = device().CreateStream();
  const auto sent = Pattern(kBytes);
  std::vector<Buffer> chain;
  for (const auto kind :
       {MemoryKind::kDevice, MemoryKind::kPinned, MemoryKind::kDevice, MemoryKind::kRegistered,
        MemoryKind::kDevice, MemoryKind::kPageable, MemoryKind::kDevice}) {
    chain.push_back(device().Allocate(kBytes, kind));
    EXPECT_EQ(chain.back().bytes(), kBytes);
  }
  const void* source = sent.data();
  for (const auto& buffer : chain) {
    stream->Copy(buffer.data(), source, kBytes);
    source = buffer.data();
  }
  std::vector<std::uint8_t> received(kBytes);
  stream->Copy(received.data(), source, kBytes);
  Finish(*stream);
  EXPECT_EQ(received, sent);
}

TEST_P(DeviceTest, AGateHoldsAStreamUntilItIsReleased) {
  const auto event = device().CreateEvent();
  const HeldStream held(device());
  held.stream->Record(*event);
  EXPECT_FALSE(IsDoneSoon(*event));
  held.gate->Release();
  Finish(*held.stream);
  EXPECT_TRUE(event->Done());
}

TEST_P(DeviceTest, AGateDoesNotHoldOtherStreams) {
  const HeldStream held(device());
  const auto other = device().CreateStream();
  const auto event = device().CreateEvent();
  other->Record(*event);
  Finish(*other);
  EXPECT_TRUE(event->Done());
}

TEST_P(DeviceTest, OneReleaseFreesEveryArmedStream) {
  const HeldStream held(device());
  const auto second = device().CreateStream();
  held.gate->Arm(*second);
  held.gate->Release();
  Finish(*held.stream);
  Finish(*second);
}

TEST_P(DeviceTest, AGateCanBeReleasedTwiceFromAnotherThreadAndArmedAgain) {
  const auto event = device().CreateEvent();
  const HeldStream held(device());
  std::thread([&] {
    held.gate->Release();
    held.gate->Release();
  }).join();
  Finish(*held.stream);
  held.gate->Arm(*held.stream);
  held.stream->Record(*event);
  EXPECT_FALSE(IsDoneSoon(*event));
  held.gate->Release();
  Finish(*held.stream);
}

TEST_P(DeviceTest, WaitOrdersTwoStreams) {
  const auto passed = device().CreateEvent();
  const auto done = device().CreateEvent();
  const auto later = device().CreateStream();
  const HeldStream held(device());
  held.stream->Record(*passed);
  later->Wait(*passed);
  later->Record(*done);
  EXPECT_FALSE(IsDoneSoon(*done));
  held.gate->Release();
  Finish(*later);
  EXPECT_TRUE(done->Done());
}

// An event may be recorded again while somebody still waits for its earlier recording.
TEST_P(DeviceTest, WaitRefersToTheLastRecordingBeforeIt) {
  const auto event = device().CreateEvent();
  const auto first = device().CreateStream();
  const auto waiting = device().CreateStream();
  first->Record(*event);
  waiting->Wait(*event);
  const HeldStream held(device());
  held.stream->Record(*event);
  Finish(*waiting);
  EXPECT_FALSE(event->Done());
}

TEST_P(DeviceTest, AnEventThatWasNeverRecordedDoesNotBlock) {
  const auto event = device().CreateEvent();
  const auto stream = device().CreateStream();
  EXPECT_TRUE(event->Done());
  EXPECT_TRUE(event->Await(0ms));
  stream->Wait(*event);
  Finish(*stream);
}

TEST_P(DeviceTest, ElapsedMsIsTheTimeBetweenTwoEvents) {
  const auto start = device().CreateEvent();
  const auto stop = device().CreateEvent();
  const auto stream = device().CreateStream();
  const auto gate = device().CreateGate();
  const auto before = std::chrono::steady_clock::now();
  stream->Record(*start);
  Finish(*stream);
  gate->Arm(*stream);
  stream->Record(*stop);
  const double shut_ms = kAWhile.count();
  std::this_thread::sleep_for(kAWhile);
  gate->Release();
  Finish(*stream);
  const std::chrono::duration<double, std::milli> all = std::chrono::steady_clock::now() - before;
  EXPECT_GE(device().ElapsedMs(*start, *stop), shut_ms * 0.99);  // two clocks
  EXPECT_LE(device().ElapsedMs(*start, *stop), all.count() * 1.01);
  EXPECT_DOUBLE_EQ(device().ElapsedMs(*start, *start), 0);
}

// However long the stream had nothing to do before.
TEST_P(DeviceTest, AnEventIsNotPassedBeforeItWasEnqueued) {
  const auto first = device().CreateEvent();
  const auto second = device().CreateEvent();
  const auto stream = device().CreateStream();
  stream->Record(*first);
  Finish(*stream);
  std::this_thread::sleep_for(kAWhile);
  stream->Record(*second);
  Finish(*stream);
  EXPECT_GE(device().ElapsedMs(*first, *second), kAWhile.count() * 0.99);
}

TEST_P(DeviceTest, ElapsedMsThrowsForAPendingEvent) {
  const auto start = device().CreateEvent();
  const auto stop = device().CreateEvent();
  const HeldStream held(device());
  held.stream->Record(*start);
  held.stream->Record(*stop);
  EXPECT_THROW((void)device().ElapsedMs(*start, *stop), Error);
}

TEST_P(DeviceTest, AnUntimedEventOrdersStreamsAndHasNoTime) {
  const auto start = device().CreateEvent();
  const auto event = device().CreateEvent({.timed = false});
  const auto waiting = device().CreateStream();
  {
    const HeldStream held(device());
    held.stream->Record(*start);
    held.stream->Record(*event);
    waiting->Wait(*event);
    EXPECT_FALSE(event->Await(kAWhile));
    EXPECT_THROW(waiting->Synchronize(kAWhile, "the untimed event"), FatalError);
  }
  Finish(*waiting);
  EXPECT_TRUE(event->Done());
  EXPECT_THROW((void)device().ElapsedMs(*start, *event), Error);
  EXPECT_THROW((void)device().ElapsedMs(*event, *start), Error);
}

TEST_P(DeviceTest, SynchronizeThrowsAfterItsTimeout) {
  const HeldStream held(device());
  try {
    held.stream->Synchronize(50ms, "waiting for Godot");
    FAIL() << "the stream ended behind a shut gate";
  } catch (const FatalError& error) {
    EXPECT_EQ(std::string(error.what()).find("waiting for Godot"), 0U) << error.what();
    EXPECT_NE(std::string(error.what()).find("0.05 s"), std::string::npos) << error.what();
  }
  held.gate->Release();
  Finish(*held.stream);
}

TEST_P(DeviceTest, ADeviceIsIdleUnlessAGateHoldsAStream) {
  EXPECT_TRUE(device().AwaitIdle(kPatience));
  if (device().backend() == Backend::kHost) return;  // which waits for no stream of its own
  const HeldStream held(device());
  EXPECT_FALSE(device().AwaitIdle(50ms));
  held.gate->Release();
  EXPECT_TRUE(device().AwaitIdle(kPatience));
}

TEST_P(DeviceTest, AFailedAllocationReportsTheNeededAndFreeBytes) {
  try {
    device().Allocate(1UL << 50, MemoryKind::kDevice);
    FAIL() << "a pebibyte was granted";
  } catch (const Error& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("needs 1024 TiB but "), std::string::npos) << text;
    EXPECT_NE(text.find(" are free"), std::string::npos) << text;
  }
}

// A driver that locks whole pages must not need whole pages of its user.
TEST_P(DeviceTest, RegisteredMemoryMayHaveAnyLength) {
  for (const std::size_t bytes : {1UL, 4095UL, 4096UL, 4097UL})
    EXPECT_EQ(CopiedThrough(MemoryKind::kRegistered, bytes), Pattern(bytes)) << bytes;
}

TEST_P(DeviceTest, StreamsOfEveryPriorityWork) {
  ASSERT_GE(device().info().priorities, 1);
  const auto sent = Pattern(kBytes);
  for (int priority = 0; priority < device().info().priorities; ++priority) {
    const auto stream = device().CreateStream({.priority = priority});
    EXPECT_EQ(device().PriorityOf(*stream), priority);
    std::vector<std::uint8_t> received(kBytes);
    stream->Copy(received.data(), sent.data(), kBytes);
    Finish(*stream);
    EXPECT_EQ(received, sent) << "priority " << priority;
  }
}

TEST_P(DeviceTest, PrioritiesAreClamped) {
  const int highest = device().info().priorities - 1;
  for (const int priority : {-1000, 0, 1, 1000}) {
    const auto stream = device().CreateStream({.priority = priority});
    EXPECT_EQ(device().PriorityOf(*stream), std::clamp(priority, 0, highest)) << priority;
    Finish(*stream);
  }
}

TEST_P(DeviceTest, AStreamOnAHostThreadHasTheLowestPriority) {
  EXPECT_EQ(device().PriorityOf(*device().CreateStream({.on_host = true})), 0);
}

TEST_P(DeviceTest, ABatchCopiesEveryPiece) {
  if (!device().info().no_batch_copy.empty()) GTEST_SKIP() << device().info().no_batch_copy;
  const auto stream = device().CreateStream();
  const auto sent = device().Allocate(kBytes, MemoryKind::kPinned);
  const auto received = device().Allocate(kBytes, MemoryKind::kPinned);
  const auto between = device().Allocate(kBytes, MemoryKind::kDevice);
  const auto pattern = Pattern(kBytes);
  std::ranges::copy(pattern, static_cast<std::uint8_t*>(sent.data()));
  std::memset(received.data(), 0, kBytes);
  for (const auto& [to, from] : {std::pair{&between, &sent}, std::pair{&received, &between}})
    device().CopyBatch(*stream, PiecesOf(*to, *from));
  Finish(*stream);
  EXPECT_EQ(std::memcmp(received.data(), pattern.data(), kBytes), 0);
}

TEST_P(DeviceTest, UnavailableFeaturesSayWhy) {
  if (device().info().no_batch_copy.empty()) GTEST_SKIP() << "batches exist";
  const auto stream = device().CreateStream();
  ExpectError(device().info().no_batch_copy, [&] { device().CopyBatch(*stream, {}); });
}

TEST_P(DeviceTest, DescribesItself) {
  EXPECT_EQ(device().backend(), GetParam());
  EXPECT_FALSE(device().info().name.empty());
  EXPECT_FALSE(device().info().identity.empty());
  EXPECT_GT(device().info().multiprocessors, 0);
  EXPECT_GT(device().info().cache_bytes, 0U);
  const Memory memory = device().memory(MemoryKind::kDevice);
  EXPECT_GT(memory.free_bytes, 0U);
  EXPECT_LE(memory.free_bytes, memory.total_bytes);
}

TEST(Partition, FaultsSayWhichSizesThereAre) {
  struct Case {
    SmPartitions partitions;
    std::vector<int> good;
    std::vector<int> bad;
    std::string fault;
  };
  constexpr int kAll = 132;
  const std::vector<Case> cases = {
      {{8, 8, 128},
       {0, 8, 16, 128, kAll},
       {-8, 1, 4, 7, 12, 127, 130, 131, 133, 136, 264},
       "must be a multiple of 8 from 8 to 128, or 132: all"},
      {{1, 1, 131}, {0, 1, 2, 131, kAll}, {-1, 133}, "must be from 1 to 131, or 132: all"},
      {{64, 2, 64}, {0, 64, kAll}, {62, 66}, "must be 64, or 132: all"},
      {{2, 1, 1}, {0, kAll}, {1, 2}, "must be 0: this device's SMs cannot be partitioned"},
      {{0, 1, 0},
       {0},
       {1, kAll},
       "must be 0: this device cannot limit streams to a subset of its SMs"}};
  for (const Case& one : cases) {
    DeviceInfo info;
    info.multiprocessors = kAll;
    info.partitions = one.partitions;
    for (const int sms : one.good) EXPECT_EQ(PartitionFault(info, sms), "") << sms;
    for (const int sms : one.bad) EXPECT_EQ(PartitionFault(info, sms), one.fault) << sms;
  }
}

TEST(Memory, SizesAreReadable) {
  EXPECT_EQ(FormatBytes(0), "0 B");
  EXPECT_EQ(FormatBytes(1023), "1023 B");
  EXPECT_EQ(FormatBytes(1024), "1 KiB");
  EXPECT_EQ(FormatBytes(1536), "1.5 KiB");
  EXPECT_EQ(FormatBytes(64.0 * 1024 * 1024), "64 MiB");
  EXPECT_EQ(FormatBytes(1e18), "9.095e+05 TiB");
}

TEST(Memory, RequireFreeThrowsOnlyIfItDoesNotFit) {
  EXPECT_NO_THROW(RequireFree(100, {100, 200}, "a matrix"));
  EXPECT_THROW(RequireFree(101, {100, 200}, "a matrix"), Error);
  try {
    RequireFree(2048, {1024, 4096}, "a matrix");
    FAIL() << "it does not fit";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "a matrix needs 2 KiB but 1 KiB are free: choose a smaller size");
  }
}

TEST(Backends, HaveNames) {
  EXPECT_EQ(ToString(Backend::kHost), "host");
  EXPECT_EQ(ToString(Backend::kCuda), "cuda");
}

TEST(Backends, SayWhyThereIsNoGpu) {
  if (VisibleGpus() > 0) GTEST_SKIP() << "there is a GPU";
  EXPECT_FALSE(CudaUnavailable().empty());
  EXPECT_THROW(OpenCudaDevice(0), Error);
}

}  // namespace
}  // namespace overlapbench
