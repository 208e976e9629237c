// The cuda backend: one GPU through the CUDA runtime.
//
// The gate is cuStreamWaitValue32 on a word of pinned host memory (CUDA Driver API, "Stream Memory
// Operations"): the stream's front end waits, and no SM is held.

#include <cuda_runtime.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <set>
#include <sstream>
#include <thread>

#include "device/cuda/batch_copy.h"
#include "device/cuda/captured_graph.h"
#include "device/cuda/cuda_check.h"
#include "device/cuda/driver.h"
#include "device/cuda/nvml.h"
#include "device/device.h"
#include "device/host/host_memory.h"

namespace overlapbench {
namespace {

class CudaEvent : public Event {
 public:
  CudaEvent() { CUDA_CHECK(cudaEventCreate(&event_)); }
  ~CudaEvent() override { cudaEventDestroy(event_); }
  CudaEvent(const CudaEvent&) = delete;
  CudaEvent& operator=(const CudaEvent&) = delete;

  [[nodiscard]] bool Done() const override {
    const cudaError_t code = cudaEventQuery(event_);
    if (code == cudaErrorNotReady) return false;
    CUDA_CHECK(code);
    return true;
  }
  [[nodiscard]] cudaEvent_t native() const { return event_; }

 private:
  cudaEvent_t event_ = nullptr;
};

cudaEvent_t Native(const Event& event) { return dynamic_cast<const CudaEvent&>(event).native(); }

// The lowest and the highest; a smaller number is a higher priority.
std::pair<int, int> PriorityRange() {
  int lowest = 0;
  int highest = 0;
  CUDA_CHECK(cudaDeviceGetStreamPriorityRange(&lowest, &highest));
  return {lowest, highest};
}

class CudaStream : public Stream {
 public:
  explicit CudaStream(int priority) {
    const auto [lowest, highest] = PriorityRange();
    const int native_priority = std::max(highest, lowest - priority);
    CUDA_CHECK(cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking, native_priority));
  }
  ~CudaStream() override { cudaStreamDestroy(stream_); }
  CudaStream(const CudaStream&) = delete;
  CudaStream& operator=(const CudaStream&) = delete;

  void Record(Event& event) override { CUDA_CHECK(cudaEventRecord(Native(event), stream_)); }
  void Wait(const Event& event) override {
    CUDA_CHECK(cudaStreamWaitEvent(stream_, Native(event)));
  }
  void Copy(void* destination, const void* source, std::size_t bytes) override {
    CUDA_CHECK(cudaMemcpyAsync(destination, source, bytes, cudaMemcpyDefault, stream_));
  }

  void Synchronize(std::chrono::milliseconds timeout, const std::string& what) override {
    const auto deadline = std::chrono::steady_clock::now() + timeout;
    for (cudaError_t code = cudaErrorNotReady; code != cudaSuccess;) {
      code = cudaStreamQuery(stream_);
      if (code != cudaErrorNotReady) CUDA_CHECK(code);
      if (std::chrono::steady_clock::now() > deadline) {
        throw FatalError(what + ": the stream did not finish within " +
                         std::to_string(timeout.count()) + " ms");
      }
      std::this_thread::yield();
    }
  }

  [[nodiscard]] void* native() const override { return stream_; }
  [[nodiscard]] HostStream* host() override { return nullptr; }

 private:
  cudaStream_t stream_ = nullptr;
};

class CudaGate : public Gate {
 public:
  CudaGate()
      : wait_value_(reinterpret_cast<PFN_cuStreamWaitValue32_v11070>(
            DriverEntryPoint("cuStreamWaitValue32", 11070))) {
    CUDA_CHECK(cudaHostAlloc(&word_, sizeof(unsigned), cudaHostAllocMapped));
    *word_ = 0;
    CUDA_CHECK(cudaHostGetDevicePointer(&device_word_, word_, 0));
  }
  ~CudaGate() override {
    CudaGate::Release();
    cudaFreeHost(word_);
  }
  CudaGate(const CudaGate&) = delete;
  CudaGate& operator=(const CudaGate&) = delete;

  void Arm(Stream& stream) override {
    ThrowIfDriverFailed(wait_value_(static_cast<CUstream>(stream.native()),
                                    reinterpret_cast<CUdeviceptr>(device_word_), ++armed_,
                                    CU_STREAM_WAIT_VALUE_GEQ),
                        "cuStreamWaitValue32");
  }
  void Release() override { std::atomic_ref(*word_).store(armed_, std::memory_order_release); }

 private:
  PFN_cuStreamWaitValue32_v11070 wait_value_;
  unsigned* word_ = nullptr;
  void* device_word_ = nullptr;
  std::atomic<unsigned> armed_ = 0;
};

std::string HexadecimalUuid(const cudaUUID_t& uuid) {
  constexpr std::array<char, 17> kDigits = {"0123456789abcdef"};
  std::string text = "GPU-";
  for (const char byte : uuid.bytes) {
    text += kDigits.at(static_cast<unsigned char>(byte) >> 4);
    text += kDigits.at(static_cast<unsigned char>(byte) & 15);
  }
  return text;
}

// Pageable memory of whole pages, page-locked afterwards.
Buffer AllocateRegistered(std::size_t bytes) {
  constexpr std::size_t kPageBytes = 4096;
  const std::size_t whole_bytes = (bytes + kPageBytes - 1) / kPageBytes * kPageBytes;
  const auto free_pages = [](void* memory) { std::free(memory); };
  std::unique_ptr<void, decltype(free_pages)> pages(std::aligned_alloc(kPageBytes, whole_bytes),
                                                    free_pages);
  if (pages == nullptr)
    throw Error("aligned_alloc of " + FormatBytes(static_cast<double>(bytes)) + " failed");
  CUDA_CHECK(cudaHostRegister(pages.get(), whole_bytes, cudaHostRegisterDefault));
  return {pages.release(), bytes, [](void* memory) {
            cudaHostUnregister(memory);
            std::free(memory);
          }};
}

// "13.0" from CUDA's 1000 × major + 10 × minor.
std::string DottedVersion(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

std::string PciBusId(int ordinal) {
  std::array<char, 32> bus_id{};
  CUDA_CHECK(cudaDeviceGetPCIBusId(bus_id.data(), bus_id.size(), ordinal));
  return bus_id.data();
}

class CudaDevice : public Device {
 public:
  explicit CudaDevice(int ordinal) : ordinal_(ordinal), nvml_(PciBusId(ordinal)) {
    CUDA_CHECK(cudaSetDevice(ordinal));
    cudaDeviceProp properties{};
    CUDA_CHECK(cudaGetDeviceProperties(&properties, ordinal));
    info_.name = properties.name;
    info_.identity = HexadecimalUuid(properties.uuid);
    info_.multiprocessors = properties.multiProcessorCount;
    info_.cache_bytes = properties.l2CacheSize;
    info_.compute_capability = 10 * properties.major + properties.minor;
    int most_clock_kHz = 0;
    CUDA_CHECK(cudaDeviceGetAttribute(&most_clock_kHz, cudaDevAttrClockRate, ordinal));
    info_.most_clock_GHz = most_clock_kHz * 1e-6;
    int driver = 0;
    int runtime = 0;
    CUDA_CHECK(cudaDriverGetVersion(&driver));
    CUDA_CHECK(cudaRuntimeGetVersion(&runtime));
    info_.versions = {{"cuda_driver", DottedVersion(driver)},
                      {"cuda_runtime", DottedVersion(runtime)},
                      {"compute_capability",
                       std::to_string(properties.major) + "." + std::to_string(properties.minor)}};
  }

  [[nodiscard]] Backend backend() const override { return Backend::kCuda; }
  [[nodiscard]] const DeviceInfo& info() const override { return info_; }
  [[nodiscard]] Memory memory(MemoryKind kind) const override {
    if (kind != MemoryKind::kDevice) return HostMemory();
    Memory memory;
    CUDA_CHECK(cudaMemGetInfo(&memory.free_bytes, &memory.total_bytes));
    return memory;
  }

  [[nodiscard]] int priorities() const override {
    const auto [lowest, highest] = PriorityRange();
    return lowest - highest + 1;
  }
  std::unique_ptr<Stream> CreateStream(int priority) override {
    return std::make_unique<CudaStream>(priority);
  }
  std::unique_ptr<Event> CreateEvent() override { return std::make_unique<CudaEvent>(); }
  std::unique_ptr<Gate> CreateGate() override { return std::make_unique<CudaGate>(); }
  std::unique_ptr<Graph> Record(const std::function<void(Stream&)>& enqueue) override {
    CudaStream stream(0);
    return Instantiate(CapturedGraph(stream, [&] { enqueue(stream); }));
  }
  [[nodiscard]] std::string NoGraphs() const override { return ""; }
  void CopyBatch(Stream& stream, std::span<const CopyPiece> pieces) override {
    EnqueueBatchCopy(stream, pieces);
  }
  [[nodiscard]] std::string NoBatchCopy() const override { return BatchCopyUnavailable(); }

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

  [[nodiscard]] double ElapsedMs(const Event& from, const Event& to) const override {
    float elapsed_ms = 0;
    CUDA_CHECK(cudaEventElapsedTime(&elapsed_ms, Native(from), Native(to)));
    return elapsed_ms;
  }
  std::string ThrottleReason() override { return nvml_.ThrottleReason(); }

  [[nodiscard]] std::map<std::string, std::string> Surroundings() const override {
    auto facts = nvml_.Facts();
    facts["gpu_pci_bus_id"] = PciBusId(ordinal_);
    facts["peer_access"] = PeerAccess();
    facts["clock_resolution_us"] = ClockResolutionUs();
    return facts;
  }

 private:
  // The smallest difference between the distances of events recorded one behind the other.
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
      distances_us.insert(ElapsedMs(first, second) * kMicrosecondsInMillisecond);
    }
    double smallest_us = *distances_us.rbegin();
    for (auto one = distances_us.begin(); std::next(one) != distances_us.end(); ++one) {
      smallest_us = std::min(smallest_us, *std::next(one) - *one);
    }
    return std::to_string(smallest_us);
  }

  // The visible GPUs that this one can reach directly: "1 2 3", or "none".
  [[nodiscard]] std::string PeerAccess() const {
    std::ostringstream peers;
    for (int peer = 0; peer < VisibleGpus(); ++peer) {
      int can = 0;
      if (peer != ordinal_) CUDA_CHECK(cudaDeviceCanAccessPeer(&can, ordinal_, peer));
      if (can != 0) peers << (peers.tellp() > 0 ? " " : "") << peer;
    }
    return peers.tellp() > 0 ? peers.str() : "none";
  }

  int ordinal_;
  Nvml nvml_;
  DeviceInfo info_;
};

}  // namespace

int VisibleGpus() {
  int count = 0;
  return cudaGetDeviceCount(&count) == cudaSuccess ? count : 0;
}

std::string CudaUnavailable() {
  int count = 0;
  const cudaError_t code = cudaGetDeviceCount(&count);
  if (code == cudaSuccess && count > 0) return "";
  return std::string("no GPU is visible: ") + cudaGetErrorString(code);
}

std::unique_ptr<Device> OpenCudaDevice(int ordinal) {
  return std::make_unique<CudaDevice>(ordinal);
}

}  // namespace overlapbench
