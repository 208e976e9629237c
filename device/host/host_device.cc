// The host backend: a share of the CPU's cores, with the same streams, events and gates as a GPU.
//
// Streams are worker threads (host_stream.h), kernels run on a bounded number of cores
// (core_pool.h), all kinds of memory are the same memory, and one monotonic clock times everything.
// Priorities are accepted and have no effect: an unprivileged process cannot raise a thread's
// priority.

#include <fmt/core.h>
#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <set>

#include "device/device.h"
#include "device/host/host_graph.h"
#include "device/host/host_memory.h"
#include "device/host/host_stream.h"
#include "device/host/rapl.h"
#include "device/throttle_watch.h"
#include "device/watches.h"

namespace overlapbench {
namespace {

std::string CpuName() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const auto colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) return line.substr(colon + 2);
  }
  return "CPU";
}

// The last-level cache, bounded. A virtual machine may report the whole socket's although it has
// only a share, and sweeping hundreds of megabytes before every sample would take longer than the
// samples.
std::size_t CacheBytes() {
  constexpr long kDefaultBytes = 16L << 20;
  constexpr long kMostBytes = 32L << 20;
  const long reported_bytes = sysconf(_SC_LEVEL3_CACHE_SIZE);
  return static_cast<std::size_t>(
      std::min(reported_bytes > 0 ? reported_bytes : kDefaultBytes, kMostBytes));
}

// How many last-level caches the machine has; 0 if the system does not say.
int LastLevelCaches() {
  std::set<std::string> sharers;
  for (long cpu = 0; cpu < sysconf(_SC_NPROCESSORS_CONF); ++cpu) {
    std::ifstream file(
        fmt::format("/sys/devices/system/cpu/cpu{}/cache/index3/shared_cpu_list", cpu));
    if (std::string cpus; std::getline(file, cpus)) sharers.insert(cpus);
  }
  return static_cast<int>(sharers.size());
}

// All processes flush at the same time, so those that share a cache also share the work. But each
// flushes the caches of its cores alone.
std::size_t CacheShareBytes(int cores, int processes) {
  const std::size_t all_bytes = CacheBytes();
  const std::size_t caches = LastLevelCaches();
  const std::size_t own_bytes = cores * std::max(0L, sysconf(_SC_LEVEL2_CACHE_SIZE));
  if (caches == 0) return all_bytes;
  return std::min(all_bytes, std::max(own_bytes, all_bytes * caches / processes));
}

// Makes the C library return freed buffers to the system. By default it raises this limit to the
// size of freed buffers, and a run's memory grows from row to row by fragmentation.
void GiveMemoryBack() {
  constexpr int kLimit_bytes = 128 << 10;  // glibc's own first limit
  mallopt(M_MMAP_THRESHOLD, kLimit_bytes);
}

class HostWatches : public DeviceWatches {
 public:
  HostWatches(int cores, std::shared_ptr<ActivityLog> log) : cores_(cores), log_(std::move(log)) {}

  // An unprivileged process cannot see whether a CPU's clocks are held down.
  std::unique_ptr<ThrottleWatch> Throttling() override {
    return std::make_unique<BlindThrottleWatch>();
  }
  std::unique_ptr<ActivityWatch> Activities() override {
    return std::make_unique<HostActivityWatch>(log_);
  }
  std::unique_ptr<GaugeWatch> Gauges() override { return std::make_unique<GaugeWatch>(nullptr); }
  std::shared_ptr<EnergyCounter> Energy() override { return std::make_shared<Rapl>(); }
  // See host_load.h instead, which reads the cores' load.
  [[nodiscard]] DeviceUse Use() const override { return {}; }
  [[nodiscard]] std::map<std::string, std::string> Surroundings() const override {
    constexpr double kMicrosecondsInNanosecond = 1e-3;
    timespec resolution{};
    clock_getres(CLOCK_MONOTONIC, &resolution);
    return {{"host_cores", std::to_string(cores_)},
            {"clock_resolution_us",
             std::to_string(static_cast<double>(resolution.tv_nsec) * kMicrosecondsInNanosecond)}};
  }

 private:
  int cores_;
  std::shared_ptr<ActivityLog> log_;
};

class HostDevice : public Device {
 public:
  HostDevice(int cores, int processes) : pool_(std::make_shared<CorePool>(cores)) {
    GiveMemoryBack();
    info_.name = CpuName();
    info_.identity = "host";
    info_.multiprocessors = pool_->cores();
    info_.partitions = {.least = 1, .step = 1, .most = pool_->cores() - 1};
    info_.cache_bytes = CacheBytes();
    info_.cache_share_bytes = CacheShareBytes(cores, processes);
    info_.no_batch_copy = "copies in a batch exist on the cuda backend only";
  }

  [[nodiscard]] Backend backend() const override { return Backend::kHost; }
  [[nodiscard]] const DeviceInfo& info() const override { return info_; }
  void UseInThisThread() override {}
  [[nodiscard]] Memory memory(MemoryKind /*kind*/) const override { return HostMemory(); }

  std::unique_ptr<Stream> CreateStream(const StreamOptions& options) override {
    RequirePartition(info_, options.sms);
    return std::make_unique<HostStream>(pool_, options.sms == 0 ? pool_->cores() : options.sms,
                                        log_);
  }
  [[nodiscard]] int PriorityOf(Stream& /*stream*/) const override { return 0; }
  std::unique_ptr<Event> CreateEvent(const EventOptions& options) override {
    return std::make_unique<HostEvent>(options.timed);
  }
  [[nodiscard]] double ElapsedMs(const Event& from, const Event& to) const override {
    return HostElapsedMs(from, to);
  }
  std::unique_ptr<Gate> CreateGate() override { return std::make_unique<HostGate>(); }

  std::unique_ptr<Graph> Record(const std::function<void(Stream&)>& enqueue) override {
    return RecordHostGraph(std::make_unique<HostStream>(pool_, log_), enqueue);
  }
  void CopyBatch(Stream& /*stream*/, std::span<const CopyPiece> /*pieces*/) override {
    throw Error(info_.no_batch_copy);
  }

  Buffer Allocate(std::size_t bytes, MemoryKind kind) override {
    RequireFree(bytes, memory(kind), "a buffer");
    constexpr std::size_t kAlignment = 4096;
    void* data = nullptr;
    if (posix_memalign(&data, kAlignment, bytes) != 0) {
      throw Error(
          fmt::format("posix_memalign of {} failed", FormatBytes(static_cast<double>(bytes))));
    }
    return {data, bytes, [](void* memory) { std::free(memory); }};
  }
  // There are no streams but those that the device made.
  [[nodiscard]] bool AwaitIdle(std::chrono::milliseconds /*timeout*/) override { return true; }

  DeviceWatches& watches() override { return watches_; }

 private:
  std::shared_ptr<CorePool> pool_;
  std::shared_ptr<ActivityLog> log_ = std::make_shared<ActivityLog>();
  HostWatches watches_{pool_->cores(), log_};
  DeviceInfo info_;
};

}  // namespace

std::unique_ptr<Device> OpenHostDevice(int cores, int processes) {
  return std::make_unique<HostDevice>(cores, processes);
}

}  // namespace overlapbench
