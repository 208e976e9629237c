// Streams whose work runs on a host thread, on every backend.

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "device/host/host_stream.h"
#include "devices.h"

namespace overlapbench {
namespace {

// A stream on a host thread is the same on every backend.
class HostThreadTest : public DeviceTest {
 protected:
  void SetUp() override {
    DeviceTest::SetUp();
    if (!IsSkipped()) host_stream_ = device().CreateStream({.on_host = true});
  }
  Stream& host_stream() { return *host_stream_; }

 private:
  std::unique_ptr<Stream> host_stream_;
};
INSTANTIATE_ON_EACH_BACKEND(HostThreadTest);

TEST_P(HostThreadTest, IsAHostStreamAndNotANativeOne) {
  EXPECT_TRUE(host_stream().on_host());
  EXPECT_EQ(host_stream().native(), nullptr);
}

TEST_P(HostThreadTest, RunsItsWorkOnAThreadOfItsOwn) {
  const auto other = device().CreateStream({.on_host = true});
  std::thread::id first;
  std::thread::id second;
  host_stream().Enqueue([&] { first = std::this_thread::get_id(); });
  other->Enqueue([&] { second = std::this_thread::get_id(); });
  Finish(host_stream());
  Finish(*other);
  EXPECT_NE(first, std::this_thread::get_id());
  EXPECT_NE(second, std::this_thread::get_id());
  EXPECT_NE(first, second);
}

TEST_P(HostThreadTest, CopiesHostMemoryInOrder) {
  const auto sent = Pattern(kBytes);
  const Buffer between = device().Allocate(kBytes, MemoryKind::kPinned);
  std::vector<std::uint8_t> received(kBytes);
  host_stream().Copy(between.data(), sent.data(), kBytes);
  host_stream().Copy(received.data(), between.data(), kBytes);
  Finish(host_stream());
  EXPECT_EQ(received, sent);
}

TEST_P(HostThreadTest, HostEventsOrderAndTimeIt) {
  const auto start = device().CreateEvent({.on_host = true});
  const auto stop = device().CreateEvent({.on_host = true});
  const auto later = device().CreateStream({.on_host = true});
  host_stream().Record(*start);
  host_stream().Enqueue([] { std::this_thread::sleep_for(kAWhile); });
  host_stream().Record(*stop);
  bool done_before = false;
  later->Wait(*stop);
  later->Enqueue([&] { done_before = stop->Done(); });
  Finish(*later);
  EXPECT_TRUE(done_before);
  EXPECT_GE(device().ElapsedMs(*start, *stop), kAWhile.count());
  EXPECT_LT(device().ElapsedMs(*start, *stop), 1000.0 * kAWhile.count());
}

TEST_P(HostThreadTest, OneGateHoldsItAndOtherStreams) {
  const auto event = device().CreateEvent({.on_host = true});
  const HeldStream held(device());
  held.gate->Arm(host_stream());
  host_stream().Record(*event);
  EXPECT_FALSE(IsDoneSoon(*event));
  held.gate->Release();
  Finish(host_stream());
  Finish(*held.stream);
  EXPECT_TRUE(event->Done());
}

// The two kinds of stream and event do not mix where they differ: the cuda backend must not take
// CUDA's default stream for a stream that it cannot use.
TEST(CudaBackend, DistinguishesHostStreamsFromItsOwn) {
  if (VisibleGpus() == 0) GTEST_SKIP() << CudaUnavailable();
  const auto device = OpenCudaDevice(0);
  const auto host_stream = device->CreateStream({.on_host = true});
  const auto host_event = device->CreateEvent({.on_host = true});
  const auto stream = device->CreateStream();
  const auto event = device->CreateEvent();
  EXPECT_THROW(stream->Record(*host_event), Error);
  EXPECT_THROW(stream->Wait(*host_event), Error);
  EXPECT_THROW(host_stream->Record(*event), Error);
  EXPECT_THROW(host_stream->Wait(*event), Error);
  EXPECT_THROW((void)device->ElapsedMs(*event, *host_event), Error);
  EXPECT_THROW(device->Record([](Stream&) {})->Launch(*host_stream), Error);
  if (device->info().no_batch_copy.empty()) {
    EXPECT_THROW(device->CopyBatch(*host_stream, {}), Error);
  }
}

}  // namespace
}  // namespace overlapbench
