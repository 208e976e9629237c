// Streams, events, gates and buffers mean the same on every backend.
#include "device/device.h"

#include <thread>
#include <vector>

#include "backends.h"

namespace overlapbench {
namespace {

using std::chrono_literals::operator""ms;

constexpr std::size_t kBytes = 1 << 20;
// Long enough for work that was wrongly let go to have run.
constexpr auto kAWhile = 30ms;

class DeviceTest : public OnEachBackend {
 protected:
  // A stream with a shut gate in it: what is enqueued behind it stays until Release.
  struct HeldStream {
    explicit HeldStream(Device& device) : stream(device.CreateStream()), gate(device.CreateGate()) {
      gate->Arm(*stream);
    }
    ~HeldStream() { gate->Release(); }
    HeldStream(const HeldStream&) = delete;
    HeldStream& operator=(const HeldStream&) = delete;

    std::unique_ptr<Stream> stream;
    std::unique_ptr<Gate> gate;
  };
  static void Finish(Stream& stream) { stream.Synchronize(kPatience, "the test"); }
  static bool IsDoneSoon(const Event& event) {
    std::this_thread::sleep_for(kAWhile);
    return event.Done();
  }
};
INSTANTIATE_ON_EACH_BACKEND(DeviceTest);

TEST_P(DeviceTest, CopiesRunInOrderThroughEveryKindOfMemory) {
  const auto stream = device().CreateStream();
  std::vector<std::uint8_t> sent(kBytes);
  for (std::size_t i = 0; i < kBytes; ++i) sent[i] = static_cast<std::uint8_t>(i * 31 >> 3);
  std::vector<Buffer> chain;
  for (const auto kind : {MemoryKind::kDevice, MemoryKind::kPinned, MemoryKind::kDevice,
                          MemoryKind::kPageable, MemoryKind::kDevice}) {
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

TEST_P(DeviceTest, AGateHoldsNoOtherStream) {
  const HeldStream held(device());
  const auto other = device().CreateStream();
  const auto event = device().CreateEvent();
  other->Record(*event);
  Finish(*other);
  EXPECT_TRUE(event->Done());
}

TEST_P(DeviceTest, OneReleaseOpensAllThatWasArmed) {
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
TEST_P(DeviceTest, WaitMeansTheRecordingBeforeIt) {
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

TEST_P(DeviceTest, AnEventThatWasNeverRecordedHoldsNobody) {
  const auto event = device().CreateEvent();
  const auto stream = device().CreateStream();
  EXPECT_TRUE(event->Done());
  stream->Wait(*event);
  Finish(*stream);
}

TEST_P(DeviceTest, EventsTellTheTimeBetweenThem) {
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
TEST_P(DeviceTest, NoPointIsPassedBeforeItWasEnqueued) {
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

TEST_P(DeviceTest, AnEventThatWasNotPassedHasNoTime) {
  const auto start = device().CreateEvent();
  const auto stop = device().CreateEvent();
  const HeldStream held(device());
  held.stream->Record(*start);
  held.stream->Record(*stop);
  EXPECT_THROW((void)device().ElapsedMs(*start, *stop), Error);
}

TEST_P(DeviceTest, SynchronizeThrowsWhenItsTimeIsUp) {
  const HeldStream held(device());
  try {
    held.stream->Synchronize(50ms, "waiting for Godot");
    FAIL() << "the stream ended behind a shut gate";
  } catch (const FatalError& error) {
    EXPECT_EQ(std::string(error.what()).find("waiting for Godot"), 0U) << error.what();
    EXPECT_NE(std::string(error.what()).find("50 ms"), std::string::npos) << error.what();
  }
  held.gate->Release();
  Finish(*held.stream);
}

TEST_P(DeviceTest, AllocationSaysWhatIsNeededAndFree) {
  try {
    device().Allocate(1UL << 50, MemoryKind::kDevice);
    FAIL() << "a pebibyte was granted";
  } catch (const Error& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("needs 1024 TiB but "), std::string::npos) << text;
    EXPECT_NE(text.find(" are free"), std::string::npos) << text;
  }
}

TEST_P(DeviceTest, PrioritiesAreClamped) {
  for (const int priority : {-1000, 0, 1, 1000}) Finish(*device().CreateStream(priority));
}

TEST_P(DeviceTest, KnowsItself) {
  EXPECT_EQ(device().backend(), GetParam());
  EXPECT_FALSE(device().info().name.empty());
  EXPECT_FALSE(device().info().identity.empty());
  EXPECT_GT(device().info().multiprocessors, 0);
  EXPECT_GT(device().info().cache_bytes, 0U);
  const Memory memory = device().memory(MemoryKind::kDevice);
  EXPECT_GT(memory.free_bytes, 0U);
  EXPECT_LE(memory.free_bytes, memory.total_bytes);
}

TEST(Memory, SizesAreReadable) {
  EXPECT_EQ(FormatBytes(0), "0 B");
  EXPECT_EQ(FormatBytes(1023), "1023 B");
  EXPECT_EQ(FormatBytes(1536), "1.5 KiB");
  EXPECT_EQ(FormatBytes(64.0 * 1024 * 1024), "64 MiB");
  EXPECT_EQ(FormatBytes(1e18), "9.095e+05 TiB");
}

TEST(Memory, WhatFitsIsRequiredInVainAndTheRestThrows) {
  EXPECT_NO_THROW(RequireFree(100, {100, 200}, "a matrix"));
  try {
    RequireFree(2048, {1024, 4096}, "a matrix");
    FAIL() << "it does not fit";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "a matrix needs 2 KiB but 1 KiB are free: choose a smaller size");
  }
}

TEST(Backends, AreNamed) {
  EXPECT_EQ(ToString(Backend::kHost), "host");
  EXPECT_EQ(ToString(Backend::kCuda), "cuda");
}

TEST(Backends, WithoutAGpuSayWhy) {
  if (VisibleGpus() > 0) GTEST_SKIP() << "there is a GPU";
  EXPECT_FALSE(CudaUnavailable().empty());
  EXPECT_THROW(OpenCudaDevice(0), Error);
}

}  // namespace
}  // namespace overlapbench
