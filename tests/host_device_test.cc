// The host backend's device: what it says of the machine, its cores and its memory.

#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <mutex>
#include <set>
#include <string>
#include <thread>

#include "backends.h"
#include "device/device.h"
#include "device/wait.h"
#include "device/watches.h"

namespace overlapbench {
namespace {

using std::chrono_literals::operator""ms;

TEST(HostDevice, HasNeitherBatchesNorPriorities) {
  const auto device = OpenHostDevice(1);
  EXPECT_EQ(device->info().no_batch_copy, "copies in a batch exist on the cuda backend only");
  EXPECT_EQ(device->info().priorities, 1);
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

}  // namespace
}  // namespace overlapbench
