// Streams, events, gates and buffers mean the same on every backend.
#include "device/device.h"

#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "backends.h"
#include "device/host/host_stream.h"
#include "device/wait.h"
#include "device/watches.h"
#include "workload/steps.h"

namespace overlapbench {
namespace {

using std::chrono_literals::operator""ms;

constexpr std::size_t kBytes = 1 << 20;
// Long enough for wrongly released work to have run.
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
  static std::vector<std::uint8_t> Pattern(std::size_t bytes) {
    std::vector<std::uint8_t> pattern(bytes);
    for (std::size_t i = 0; i < bytes; ++i) pattern[i] = static_cast<std::uint8_t>(i * 31 >> 3);
    return pattern;
  }
  // Pattern(bytes), through memory of a kind and back.
  std::vector<std::uint8_t> CopiedThrough(MemoryKind kind, std::size_t bytes) {
    const auto stream = device().CreateStream();
    const auto sent = Pattern(bytes);
    const Buffer through = device().Allocate(bytes, kind);
    std::vector<std::uint8_t> received(bytes);
    stream->Copy(through.data(), sent.data(), bytes);
    stream->Copy(received.data(), through.data(), bytes);
    Finish(*stream);
    return received;
  }
  // All of a buffer in pieces of 1, 2, 3, … bytes.
  static std::vector<CopyPiece> PiecesOf(const Buffer& to, const Buffer& from) {
    std::vector<CopyPiece> pieces;
    std::size_t first = 0;
    for (std::size_t bytes = 1; first < to.bytes(); ++bytes) {
      bytes = std::min(bytes, to.bytes() - first);
      pieces.push_back({static_cast<std::byte*>(to.data()) + first,
                        static_cast<const std::byte*>(from.data()) + first, bytes});
      first += bytes;
    }
    return pieces;
  }
  static void ExpectError(const std::string& text, const std::function<void()>& action) {
    try {
      action();
      FAIL() << "no error: " << text;
    } catch (const Error& error) {
      EXPECT_EQ(error.what(), text);
    }
  }
  static bool IsDoneSoon(const Event& event) {
    std::this_thread::sleep_for(kAWhile);
    return event.Done();
  }
};
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

// A stream on a host thread is the same on every backend.
class HostThreadTest : public DeviceTest {
 protected:
  void SetUp() override {
    DeviceTest::SetUp();
    if (!IsSkipped()) stream_ = device().CreateStream({.on_host = true});
  }
  Stream& stream() { return *stream_; }

 private:
  std::unique_ptr<Stream> stream_;
};
INSTANTIATE_ON_EACH_BACKEND(HostThreadTest);

TEST_P(HostThreadTest, IsAHostStreamAndNotANativeOne) {
  EXPECT_TRUE(stream().on_host());
  EXPECT_EQ(stream().native(), nullptr);
}

TEST_P(HostThreadTest, RunsItsWorkOnAThreadOfItsOwn) {
  const auto other = device().CreateStream({.on_host = true});
  std::thread::id first;
  std::thread::id second;
  stream().Enqueue([&] { first = std::this_thread::get_id(); });
  other->Enqueue([&] { second = std::this_thread::get_id(); });
  Finish(stream());
  Finish(*other);
  EXPECT_NE(first, std::this_thread::get_id());
  EXPECT_NE(second, std::this_thread::get_id());
  EXPECT_NE(first, second);
}

TEST_P(HostThreadTest, CopiesHostMemoryInOrder) {
  const auto sent = Pattern(kBytes);
  const Buffer between = device().Allocate(kBytes, MemoryKind::kPinned);
  std::vector<std::uint8_t> received(kBytes);
  stream().Copy(between.data(), sent.data(), kBytes);
  stream().Copy(received.data(), between.data(), kBytes);
  Finish(stream());
  EXPECT_EQ(received, sent);
}

TEST_P(HostThreadTest, HostEventsOrderAndTimeIt) {
  const auto start = device().CreateEvent({.on_host = true});
  const auto stop = device().CreateEvent({.on_host = true});
  const auto later = device().CreateStream({.on_host = true});
  stream().Record(*start);
  stream().Enqueue([] { std::this_thread::sleep_for(kAWhile); });
  stream().Record(*stop);
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
  held.gate->Arm(stream());
  stream().Record(*event);
  EXPECT_FALSE(IsDoneSoon(*event));
  held.gate->Release();
  Finish(stream());
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

class GraphTest : public DeviceTest {
 protected:
  static constexpr long kCount = 1000;
  static constexpr float kFirst = 5;

  void SetUp() override {
    DeviceTest::SetUp();
    if (IsSkipped()) return;
    if (!device().info().no_graphs.empty()) GTEST_SKIP() << device().info().no_graphs;
    stream_ = device().CreateStream();
    on_device_ = device().Allocate(kCount * sizeof(float), MemoryKind::kDevice);
    input_ = device().Allocate(kCount * sizeof(float), MemoryKind::kPinned);
    output_ = device().Allocate(kCount * sizeof(float), MemoryKind::kPinned);
    SetAll(input_, kFirst);
    SetAll(output_, 0);
  }

  // In, two steps more, and out.
  void EnqueueWork(Stream& stream) {
    auto* values = static_cast<float*>(on_device_.data());
    stream.Copy(values, input_.data(), input_.bytes());
    for (int i = 0; i < 2; ++i) EnqueueSteps(device(), stream, values, values, kCount, 1);
    stream.Copy(output_.data(), values, output_.bytes());
  }
  std::unique_ptr<Graph> RecordWork() {
    return device().Record([this](Stream& stream) { EnqueueWork(stream); });
  }
  void Launch(Graph& graph) {
    graph.Launch(*stream_);
    Finish(*stream_);
  }
  static void SetAll(const Buffer& buffer, float value) {
    std::fill_n(static_cast<float*>(buffer.data()), kCount, value);
  }
  void ExpectOutput(float value) const {
    const auto* values = static_cast<const float*>(output_.data());
    EXPECT_EQ(std::vector<float>(values, values + kCount), std::vector<float>(kCount, value));
  }

  std::unique_ptr<Stream> stream_;
  Buffer on_device_;
  Buffer input_;
  Buffer output_;
};
INSTANTIATE_ON_EACH_BACKEND(GraphTest);

TEST_P(GraphTest, RecordingRunsNothing) {
  const auto graph = RecordWork();
  std::this_thread::sleep_for(kAWhile);
  ExpectOutput(0);
  Launch(*graph);
  ExpectOutput(kFirst + 2);
}

TEST_P(GraphTest, EveryLaunchRepeatsTheRecordedWork) {
  const auto graph = RecordWork();
  for (const float first : {kFirst, kFirst, 100.0F}) {
    SetAll(input_, first);
    SetAll(output_, 0);
    Launch(*graph);
    ExpectOutput(first + 2);
  }
}

TEST_P(GraphTest, LaunchesRunInStreamOrder) {
  const auto graph = RecordWork();
  const auto gate = device().CreateGate();
  gate->Arm(*stream_);
  graph->Launch(*stream_);
  std::this_thread::sleep_for(kAWhile);
  ExpectOutput(0);
  gate->Release();
  Finish(*stream_);
  ExpectOutput(kFirst + 2);
}

TEST_P(GraphTest, RecordsOtherStreamsThatWaitForItsEvents) {
  const auto side = device().CreateStream();
  const auto forked = device().CreateEvent();
  const auto joined = device().CreateEvent();
  const auto graph = device().Record([&](Stream& stream) {
    stream.Record(*forked);
    side->Wait(*forked);
    EnqueueWork(*side);
    side->Record(*joined);
    stream.Wait(*joined);
  });
  ExpectOutput(0);
  Launch(*graph);
  ExpectOutput(kFirst + 2);
}

// Whether the caller failed or what it enqueued cannot be recorded. A launch that follows shows
// whether CUDA still remembers the failure.
TEST_P(GraphTest, AFailedRecordingLeavesNothingBehind) {
  const std::vector<std::function<void(Stream&)>> failures = {
      [](Stream&) { throw Error("no such file"); },
      [](Stream& stream) { stream.Synchronize(kPatience, "waiting in a recording"); },
      [&](Stream& stream) {
        EnqueueWork(stream);
        stream.Synchronize(kPatience, "waiting in a recording");
      }};
  for (const auto& failure : failures) {
    EXPECT_THROW(device().Record(failure), Error);
    SetAll(output_, 0);
    EnqueueWork(*stream_);
    Finish(*stream_);
    ExpectOutput(kFirst + 2);
    Launch(*RecordWork());
  }
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
  if (device().info().no_graphs.empty() && device().info().no_batch_copy.empty())
    GTEST_SKIP() << "both graphs and batches exist";
  const auto stream = device().CreateStream();
  if (!device().info().no_graphs.empty())
    ExpectError(device().info().no_graphs, [&] { device().Record([](Stream&) {}); });
  if (!device().info().no_batch_copy.empty())
    ExpectError(device().info().no_batch_copy, [&] { device().CopyBatch(*stream, {}); });
}

TEST(HostDevice, HasNeitherGraphsNorBatchesNorPriorities) {
  const auto device = OpenHostDevice(1);
  EXPECT_EQ(device->info().no_graphs, "graphs exist on the cuda backend only");
  EXPECT_EQ(device->info().no_batch_copy, "copies in a batch exist on the cuda backend only");
  EXPECT_EQ(device->info().priorities, 1);
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

TEST(HostDevice, ProcessesShareTheFlushOfACache) {
  const std::size_t all_bytes = OpenHostDevice(1)->info().cache_bytes;
  const auto share_bytes = [](int processes) {
    return OpenHostDevice(1, processes)->info().cache_share_bytes;
  };
  EXPECT_EQ(share_bytes(1), all_bytes);
  for (const int processes : {2, 8, 64}) {
    EXPECT_GE(processes * share_bytes(processes), all_bytes) << processes;
    EXPECT_LE(share_bytes(processes), all_bytes) << processes;
  }
  if (!std::filesystem::exists("/sys/devices/system/cpu/cpu0/cache/index3/shared_cpu_list"))
    GTEST_SKIP() << "the system does not say how many caches there are";
  constexpr int kMany = 4096;
  EXPECT_LT(share_bytes(kMany), all_bytes);
  EXPECT_GE(static_cast<long>(share_bytes(kMany)), sysconf(_SC_LEVEL2_CACHE_SIZE));
}

TEST(HostDevice, DescribesThisMachine) {
  const auto device = OpenHostDevice(3);
  const long reported_bytes = sysconf(_SC_LEVEL3_CACHE_SIZE);
  EXPECT_EQ(static_cast<long>(device->info().cache_bytes),
            reported_bytes <= 0 ? 16L << 20 : std::min(reported_bytes, 32L << 20));
  std::ifstream file("/proc/cpuinfo");
  const std::string text(std::istreambuf_iterator<char>(file), {});
  if (const auto found = text.find("model name\t: "); found != std::string::npos) {
    const auto begin = found + std::string("model name\t: ").size();
    EXPECT_EQ(device->info().name, text.substr(begin, text.find('\n', begin) - begin));
  }
  timespec resolution{};
  clock_getres(CLOCK_MONOTONIC, &resolution);
  const auto surroundings = device->watches().Surroundings();
  EXPECT_EQ(surroundings.at("host_cores"), "3");
  EXPECT_NEAR(std::stod(surroundings.at("clock_resolution_us")),
              static_cast<double>(resolution.tv_nsec) / 1000, 1e-6);
}

// The threads of two blocks that wait for each other, if both run at once; else one thread.
std::size_t CoresOf(Stream& stream) {
  std::atomic<int> begun = 0;
  std::mutex mutex;
  std::set<std::thread::id> threads;
  stream.EnqueueBlocks(2, [&](int) {
    ++begun;
    const auto both = [&] { return begun == 2; };
    (void)WaitUntil(both, 100ms);
    const std::lock_guard lock(mutex);
    threads.insert(std::this_thread::get_id());
  });
  stream.Synchronize(kPatience, "two blocks");
  return threads.size();
}

TEST(HostDevice, AStreamHasAllCoresOrItsPart) {
  const auto device = OpenHostDevice(2);
  EXPECT_EQ(CoresOf(*device->CreateStream()), 2U);
  EXPECT_EQ(CoresOf(*device->CreateStream({.sms = 2})), 2U);
  EXPECT_EQ(CoresOf(*device->CreateStream({.sms = 1})), 1U);
  EXPECT_EQ(CoresOf(*device->CreateStream({.on_host = true})), 2U);
  EXPECT_EQ(PartitionFault(device->info(), 3), "must be 1, or 2: all");
  EXPECT_EQ(PartitionFault(OpenHostDevice(8)->info(), 9), "must be from 1 to 7, or 8: all");
  try {
    device->CreateStream({.sms = 3});
    FAIL() << "it has two cores";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "a stream cannot use 3 SMs: their number must be 1, or 2: all");
  }
}

// Large blocks are mapped one by one, also after larger ones were freed. Sanitizers have an
// allocator of their own.
TEST(HostDevice, GivesFreedMemoryBack) {
  const auto mapped = [] { return mallinfo2().hblkhd; };
  const auto device = OpenHostDevice(1);
  const std::size_t before = mapped();
  bool tells = false;
  for (const std::size_t bytes : {8UL << 20, 4UL << 20}) {
    const Buffer buffer = device->Allocate(bytes, MemoryKind::kDevice);
    tells |= mapped() > before;
    if (!tells) GTEST_SKIP() << "this allocator does not say what it maps";
    EXPECT_GE(mapped(), before + bytes);
  }
  EXPECT_EQ(mapped(), before);
}

TEST(HostDevice, BuffersBeginOnAPage) {
  const auto device = OpenHostDevice(1);
  for (const std::size_t bytes : {1UL, 100UL, 4097UL}) {
    const Buffer buffer = device->Allocate(bytes, MemoryKind::kDevice);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer.data()) % 4096, 0U) << bytes;
  }
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
       {-8, 1, 7, 12, 127, 136},
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
  EXPECT_EQ(FormatBytes(1536), "1.5 KiB");
  EXPECT_EQ(FormatBytes(64.0 * 1024 * 1024), "64 MiB");
  EXPECT_EQ(FormatBytes(1e18), "9.095e+05 TiB");
}

TEST(Memory, RequireFreeThrowsOnlyIfItDoesNotFit) {
  EXPECT_NO_THROW(RequireFree(100, {100, 200}, "a matrix"));
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
