// The cuda backend's device: one GPU, used through the CUDA runtime and queried through NVML.

#include <cuda_runtime.h>
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <future>
#include <set>
#include <thread>

#include "device/cuda/cuda_check.h"
#include "device/cuda/cuda_stream.h"
#include "device/cuda/cupti_watch.h"
#include "device/cuda/graph_capture.h"
#include "device/cuda/nvml.h"
#include "device/cuda/sm_partition.h"
#include "device/device.h"
#include "device/host/host_memory.h"
#include "device/watches.h"

namespace overlapbench {
namespace {

std::string HexadecimalUuid(const cudaUUID_t& uuid) {
  std::string text = "GPU-";
  for (const char byte : uuid.bytes)
    text += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  return text;
}

struct GpuCount {
  int count = 0;
  cudaError_t code = cudaSuccess;
};

GpuCount CountGpus() {
  GpuCount found;
  found.code = cudaGetDeviceCount(&found.count);
  if (found.code != cudaSuccess) found.count = 0;
  return found;
}

// Whether there is no GPU for this build. Any other error says nothing about that: the driver may
// be broken, or busy with the end of a job that was killed.
bool MeansNone(cudaError_t code) {
  return code == cudaSuccess || code == cudaErrorNoDevice || code == cudaErrorInsufficientDriver ||
         code == cudaErrorStubLibrary;
}

std::string DriverFailure(cudaError_t code) {
  return fmt::format("cudaGetDeviceCount failed: {}, {} ({})", cudaGetErrorName(code),
                     cudaGetErrorString(code), kDriverAdvice);
}

// Pageable memory of whole pages, page-locked afterwards.
Buffer AllocateRegistered(std::size_t bytes) {
  constexpr std::size_t kPageBytes = 4096;
  const std::size_t whole_bytes = (bytes + kPageBytes - 1) / kPageBytes * kPageBytes;
  const auto free_pages = [](void* memory) { std::free(memory); };
  std::unique_ptr<void, decltype(free_pages)> pages(std::aligned_alloc(kPageBytes, whole_bytes),
                                                    free_pages);
  if (pages == nullptr) {
    throw Error(fmt::format("aligned_alloc of {} failed", FormatBytes(static_cast<double>(bytes))));
  }
  CUDA_CHECK(cudaHostRegister(pages.get(), whole_bytes, cudaHostRegisterDefault));
  return {pages.release(), bytes, [](void* memory) {
            cudaHostUnregister(memory);
            std::free(memory);
          }};
}

// "13.0" from CUDA's 1000 × major + 10 × minor.
std::string DottedVersion(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

std::string PciBusId(int ordinal) {
  std::array<char, 32> bus_id{};
  CUDA_CHECK(cudaDeviceGetPCIBusId(bus_id.data(), bus_id.size(), ordinal));
  return bus_id.data();
}

// The memory's theoretical peak.
double MemoryGBps(int ordinal) {
  constexpr double kTransfersPerClock = 2;
  constexpr double kBitsInByte = 8;
  constexpr double kGHzFromkHz = 1e-6;
  int clock_kHz = 0;
  int width_bits = 0;
  CUDA_CHECK(cudaDeviceGetAttribute(&clock_kHz, cudaDevAttrMemoryClockRate, ordinal));
  CUDA_CHECK(cudaDeviceGetAttribute(&width_bits, cudaDevAttrGlobalMemoryBusWidth, ordinal));
  return kTransfersPerClock * clock_kHz * kGHzFromkHz * width_bits / kBitsInByte;
}

// One NVLink's rate each way; 0 for GPUs that the table lacks. Source: NVIDIA's architecture
// whitepapers (A100: 12 links, 600 GB/s both ways; H100: 18, 900; B200: 18, 1,800).
double LinkGBps(int compute_capability) {
  switch (compute_capability) {
    case 80:
    case 90:
      return 25;
    case 100:
      return 50;
    default:
      return 0;
  }
}

class CudaWatches : public DeviceWatches {
 public:
  CudaWatches(int ordinal, std::shared_ptr<const Nvml> nvml, std::shared_ptr<ActivityLog> log)
      : ordinal_(ordinal), nvml_(std::move(nvml)), log_(std::move(log)) {}

  std::unique_ptr<ThrottleWatch> Throttling() override {
    if (!nvml_->available()) return std::make_unique<BlindThrottleWatch>();
    return std::make_unique<PollingThrottleWatch>(nvml_);
  }
  std::unique_ptr<ActivityWatch> Activities() override { return WatchByCupti(log_); }
  std::unique_ptr<GaugeWatch> Gauges() override {
    return std::make_unique<GaugeWatch>(nvml_->available() ? nvml_ : nullptr);
  }
  std::shared_ptr<EnergyCounter> Energy() override { return std::make_shared<NvmlEnergy>(nvml_); }
  [[nodiscard]] DeviceUse Use() const override { return nvml_->Use(); }

  [[nodiscard]] std::map<std::string, std::string> Surroundings() const override {
    auto facts = nvml_->Facts();
    facts["gpu_pci_bus_id"] = PciBusId(ordinal_);
    facts["peer_access"] = PeerAccess();
    facts["clock_resolution_us"] = ClockResolutionUs();
    return facts;
  }

 private:
  // The smallest difference between the distances of events recorded back to back.
  [[nodiscard]] std::string ClockResolutionUs() const {
    constexpr int kPairs = 200;
    constexpr double kMicrosecondsInMillisecond = 1000;
    CudaStream stream(0);
    CudaEvent first;
    CudaEvent second;
    std::set<double> distances_us;
    for (int i = 0; i < kPairs; ++i) {
      stream.Record(first);
      stream.Record(second);
      stream.Synchronize(std::chrono::seconds(10), "measuring the clock's resolution");
      distances_us.insert(CudaElapsedMs(first, second) * kMicrosecondsInMillisecond);
    }
    double smallest_us = *distances_us.rbegin();
    for (auto one = distances_us.begin(); std::next(one) != distances_us.end(); ++one) {
      smallest_us = std::min(smallest_us, *std::next(one) - *one);
    }
    return std::to_string(smallest_us);
  }

  // The visible GPUs that this one can reach directly: "1 2 3", or "none".
  [[nodiscard]] std::string PeerAccess() const {
    std::string peers;
    for (int peer = 0; peer < VisibleGpus(); ++peer) {
      int can = 0;
      if (peer != ordinal_) CUDA_CHECK(cudaDeviceCanAccessPeer(&can, ordinal_, peer));
      if (can != 0) peers += fmt::format("{}{}", peers.empty() ? "" : " ", peer);
    }
    return peers.empty() ? "none" : peers;
  }

  int ordinal_;
  std::shared_ptr<const Nvml> nvml_;
  std::shared_ptr<ActivityLog> log_;  // of host streams
};

class CudaDevice : public Device {
 public:
  explicit CudaDevice(int ordinal)
      : ordinal_(ordinal), nvml_(std::make_shared<const Nvml>(PciBusId(ordinal))) {
    CUDA_CHECK(cudaSetDevice(ordinal));
    cudaDeviceProp properties{};
    CUDA_CHECK(cudaGetDeviceProperties(&properties, ordinal));
    info_.name = properties.name;
    info_.identity = HexadecimalUuid(properties.uuid);
    info_.multiprocessors = properties.multiProcessorCount;
    info_.partitions = SmPartition::Sizes(ordinal);
    const auto [lowest, highest] = CudaPriorityRange();
    info_.priorities = lowest - highest + 1;
    info_.no_batch_copy = BatchCopyUnavailable();
    info_.cache_bytes = info_.cache_share_bytes = properties.l2CacheSize;
    info_.compute_capability = 10 * properties.major + properties.minor;
    int most_clock_kHz = 0;
    CUDA_CHECK(cudaDeviceGetAttribute(&most_clock_kHz, cudaDevAttrClockRate, ordinal));
    info_.most_clock_GHz = most_clock_kHz * 1e-6;
    info_.memory_GBps = MemoryGBps(ordinal);
    info_.link_GBps = nvml_->active_links() * LinkGBps(info_.compute_capability);
    int driver = 0;
    int runtime = 0;
    CUDA_CHECK(cudaDriverGetVersion(&driver));
    CUDA_CHECK(cudaRuntimeGetVersion(&runtime));
    info_.versions = {
        {"cuda_driver", DottedVersion(driver)},
        {"cuda_runtime", DottedVersion(runtime)},
        {"compute_capability", fmt::format("{}.{}", properties.major, properties.minor)}};
  }

  [[nodiscard]] Backend backend() const override { return Backend::kCuda; }
  [[nodiscard]] const DeviceInfo& info() const override { return info_; }
  void UseInThisThread() override { CUDA_CHECK(cudaSetDevice(ordinal_)); }
  [[nodiscard]] Memory memory(MemoryKind kind) const override {
    if (kind != MemoryKind::kDevice) return HostMemory();
    Memory memory;
    CUDA_CHECK(cudaMemGetInfo(&memory.free_bytes, &memory.total_bytes));
    return memory;
  }

  std::unique_ptr<Stream> CreateStream(const StreamOptions& options) override {
    if (options.on_host) return std::make_unique<HostStream>(std::make_shared<CorePool>(1), log_);
    if (options.sms == 0) return std::make_unique<CudaStream>(options.priority);
    RequirePartition(info_, options.sms);
    return std::make_unique<CudaStream>(options.priority, PartitionOf(options.sms));
  }
  [[nodiscard]] int PriorityOf(Stream& stream) const override {
    return stream.on_host() ? 0 : CudaPriority(stream);
  }
  std::unique_ptr<Event> CreateEvent(const EventOptions& options) override {
    if (options.on_host) return std::make_unique<HostEvent>(options.timed);
    return std::make_unique<CudaEvent>(options.timed);
  }
  [[nodiscard]] double ElapsedMs(const Event& from, const Event& to) const override {
    return CudaElapsedMs(from, to);
  }
  std::unique_ptr<Gate> CreateGate() override { return std::make_unique<CudaGate>(); }
  std::unique_ptr<Graph> Record(const std::function<void(Stream&)>& enqueue) override {
    CudaStream stream(0);
    return RecordGraph(stream, [&] { enqueue(stream); });
  }
  void CopyBatch(Stream& stream, std::span<const CopyPiece> pieces) override {
    EnqueueBatchCopy(stream, pieces);
  }

  Buffer Allocate(std::size_t bytes, MemoryKind kind) override {
    RequireFree(bytes, memory(kind), "a buffer");
    void* data = nullptr;
    switch (kind) {
      case MemoryKind::kDevice:
        CUDA_CHECK(cudaMalloc(&data, bytes));
        return {data, bytes, [](void* memory) { cudaFree(memory); }};
      case MemoryKind::kPinned:
        CUDA_CHECK(cudaMallocHost(&data, bytes));
        return {data, bytes, [](void* memory) { cudaFreeHost(memory); }};
      case MemoryKind::kRegistered:
        return AllocateRegistered(bytes);
      case MemoryKind::kPageable:
        data = ::operator new(bytes);
        return {data, bytes, [](void* memory) { ::operator delete(memory); }};
    }
    throw Error("Allocate: unknown kind of memory");
  }
  // cudaDeviceSynchronize has no timeout, so a thread makes the call. If it never returns, the
  // thread is abandoned.
  [[nodiscard]] bool AwaitIdle(std::chrono::milliseconds timeout) override {
    std::promise<cudaError_t> ended;
    auto synchronized = ended.get_future();
    std::thread([ordinal = ordinal_, ended = std::move(ended)]() mutable {
      const cudaError_t chosen = cudaSetDevice(ordinal);
      ended.set_value(chosen == cudaSuccess ? cudaDeviceSynchronize() : chosen);
    }).detach();
    if (synchronized.wait_for(timeout) != std::future_status::ready) return false;
    ThrowIfCudaFailed(synchronized.get(), "cudaDeviceSynchronize()");
    return true;
  }

  DeviceWatches& watches() override { return watches_; }

 private:
  // Streams of one size share a partition, and so have the same SMs. The partition ends with the
  // last of them, so that it cannot affect later measurements.
  std::shared_ptr<const SmPartition> PartitionOf(int sms) {
    auto partition = partitions_[sms].lock();
    if (partition == nullptr)
      partitions_[sms] = partition = std::make_shared<const SmPartition>(ordinal_, sms);
    return partition;
  }

  int ordinal_;
  std::shared_ptr<const Nvml> nvml_;                                    // watches share it
  std::shared_ptr<ActivityLog> log_ = std::make_shared<ActivityLog>();  // of host streams
  CudaWatches watches_{ordinal_, nvml_, log_};
  DeviceInfo info_;
  std::map<int, std::weak_ptr<const SmPartition>> partitions_;
};

}  // namespace

int VisibleGpus() {
  const auto [count, code] = CountGpus();
  if (count == 0 && !MeansNone(code)) throw Error(DriverFailure(code));
  return count;
}

std::string CudaUnavailable() {
  const auto [count, code] = CountGpus();
  if (count > 0) return "";
  if (!MeansNone(code)) return DriverFailure(code);
  return std::string("no GPU is visible: ") + cudaGetErrorString(code);
}

std::unique_ptr<Device> OpenCudaDevice(int ordinal) {
  return std::make_unique<CudaDevice>(ordinal);
}

}  // namespace overlapbench
