#include <cuda_runtime.h>

#include <algorithm>
#include <vector>

#include "comm/stand_in.h"
#include "device/cuda/cuda_check.h"
#include "device/cuda/cuda_stream.h"
#include "device/cuda/device_attribute.h"
#include "device/cuda/gpu_clock.h"
#include "workload/data.h"
#include "workload/own_time.h"
#include "workload/registry.h"

namespace overlapbench {
namespace {

constexpr int kThreads = 1024;
constexpr int kWarp = 32;
constexpr long kWordBytes = 16;
constexpr std::uint32_t kSeed = 8000;
constexpr int kMost = 256;

struct StandInTask {
  const uint4* from;
  uint4* to;
  long window_words;    // of 16 bytes; a block's window of either half
  long block_words;     // copied per block
  int copying_threads;  // of a block
  unsigned long long duration_ns;
  unsigned long long* shortest_ns;  // of all blocks
};

// Bypasses the L1 cache, which would keep a block's window that should stay in the last-level
// cache. A real transfer also waits for the link, so each round sleeps for that time.
__device__ void CopyShare(const StandInTask& task) {
  constexpr int kInFlight = 4;
  constexpr unsigned kLink_ns = 700;  // NVLink's share of a read: half of 1.4 us (peer_move.h)
  const uint4* const from = task.from + task.window_words * blockIdx.x;
  uint4* const to = task.to + task.window_words * blockIdx.x;
  const int threads = task.copying_threads;
  for (long first = threadIdx.x; first < task.block_words; first += threads * kInFlight) {
    uint4 words[kInFlight];
#pragma unroll
    for (int i = 0; i < kInFlight; ++i) {
      const long at = first + static_cast<long>(i) * threads;
      if (at < task.block_words) words[i] = __ldcg(from + at % task.window_words);
    }
#pragma unroll
    for (int i = 0; i < kInFlight; ++i) {
      const long at = first + static_cast<long>(i) * threads;
      if (at < task.block_words) to[at % task.window_words] = words[i];
    }
    __nanosleep(kLink_ns);
  }
}

__global__ __launch_bounds__(kThreads, 1) void HoldAndCopy(StandInTask task) {
  const unsigned long long started_ns = GpuNow_ns();
  if (threadIdx.x < task.copying_threads) CopyShare(task);
  while (GpuNow_ns() - started_ns < task.duration_ns) __nanosleep(500);
  if (threadIdx.x == 0) atomicMin(task.shortest_ns, GpuNow_ns() - started_ns);
}

// The most that a block can use. Every block reserves 1 KiB (CUDA C++ Programming Guide, "Compute
// Capability 8.x"), so that no other one fits.
int WholeSharedMemory_bytes() { return DeviceAttribute(cudaDevAttrMaxSharedMemoryPerBlockOptin); }

class StandIn : public Workload {
 public:
  StandIn(const Machine& machine, std::size_t most_span_bytes,
          std::function<StandInOptions()> options)
      : machine_(machine),
        ask_(std::move(options)),
        memory_(machine.device.Allocate(most_span_bytes, MemoryKind::kDevice)),
        shortest_ns_(machine.device.Allocate(sizeof(unsigned long long), MemoryKind::kDevice)) {
    CUDA_CHECK(cudaFuncSetAttribute(HoldAndCopy, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                    WholeSharedMemory_bytes()));
  }

  void Connect() override {
    const StandInOptions asked = ask_();
    options_ = asked;
    // Always through memory, since beside other traffic the cache retains little.
    options_.span_bytes = memory_.bytes();
    copying_warps_ = block_words() == 0 ? 0 : FewestWarps();
    options_ = asked;
    held_us_ = asked.duration_us - Overhead_us();
  }

  [[nodiscard]] Cost cost() const override {
    return {.moved_bytes = static_cast<double>(options_.moved_bytes)};
  }

  // After one complete copy both halves are equal, so copying any part of one to the same place in
  // the other changes nothing.
  void Reset(Stream& stream) override {
    FillIntegers(stream, memory_.data(), count(), Element::kInt32, kSeed, kMost);
    Poison(stream, to(), half_bytes());
    CUDA_CHECK(
        cudaMemsetAsync(shortest_ns_.data(), 0xFF, shortest_ns_.bytes(), NativeStream(stream)));
  }

  void Enqueue(Stream& stream) override { EnqueueFor(stream, copying_warps_, held_us_); }

  Verdict Verify(Stream& stream) override {
    unsigned long long shortest_ns = 0;
    stream.Copy(&shortest_ns, shortest_ns_.data(), sizeof(shortest_ns));
    stream.Synchronize(machine_.timeout, "verifying StandIn");
    if (shortest_ns == ~0ULL) return {1, 0, "the stand-in did not run"};
    if (shortest_ns < Nanoseconds(held_us_)) return {1, 0, "the stand-in ended before its time"};
    const long window_count = window_words() * kWordBytes / 4;
    const long copied = std::min(block_words(), window_words()) * kWordBytes / 4;
    for (int block = 0; copied > 0 && block < options_.sms; ++block) {
      const long first = block * window_count;
      const Verdict verdict = FindFault(machine_, stream, to() + first * 4, copied, Element::kInt32,
                                        {count(), first, 0, 1, kMost, kSeed});
      if (!verdict.fault.empty()) return verdict;
    }
    return {};
  }

  [[nodiscard]] std::optional<long> sms() const override { return options_.sms; }

 private:
  [[nodiscard]] long count() const { return half_bytes() / 4; }
  [[nodiscard]] long half_bytes() const {
    const auto span = static_cast<long>(std::min(options_.span_bytes, memory_.bytes()));
    return span / 2 / kWordBytes * kWordBytes;
  }
  [[nodiscard]] std::byte* to() const {
    return static_cast<std::byte*>(memory_.data()) + half_bytes();
  }
  // Of each block.
  [[nodiscard]] long block_words() const {
    constexpr long kReadAndWritten = 2;
    if (half_bytes() == 0) return 0;
    return static_cast<long>(options_.moved_bytes) / kReadAndWritten / kWordBytes / options_.sms;
  }

  [[nodiscard]] long window_words() const {
    return std::max(half_bytes() / kWordBytes / options_.sms, 1L);
  }

  static unsigned long long Nanoseconds(double time_us) {
    return static_cast<unsigned long long>(1000 * std::max(time_us, 0.0));
  }

  void EnqueueFor(Stream& stream, int warps, double held_us) {
    const StandInTask task{static_cast<const uint4*>(memory_.data()),
                           reinterpret_cast<uint4*>(to()),
                           window_words(),
                           block_words(),
                           warps * kWarp,
                           Nanoseconds(held_us),
                           static_cast<unsigned long long*>(shortest_ns_.data())};
    HoldAndCopy<<<options_.sms, kThreads, WholeSharedMemory_bytes(), NativeStream(stream)>>>(task);
    CUDA_CHECK(cudaGetLastError());
  }

  // The fewest warps that copy everything within the duration on this GPU; all warps if no number
  // does.
  int FewestWarps() {
    int fewest = kThreads / kWarp;
    for (int too_few = 0; fewest - too_few > 1;) {
      const int warps = (too_few + fewest) / 2;
      (Time_us(1, warps, 0) <= options_.duration_us ? fewest : too_few) = warps;
    }
    return fewest;
  }

  // The time that launch and completion add to the time that the kernel holds the SMs.
  double Overhead_us() {
    constexpr int kRuns = 7;
    return Time_us(kRuns, copying_warps_, options_.duration_us) - options_.duration_us;
  }

  double Time_us(int runs, int warps, double held_us) {
    const auto stream = machine_.device.CreateStream();
    Reset(*stream);
    return ShortestTime_us(machine_, *stream, runs, "a stand-in",
                           [&] { EnqueueFor(*stream, warps, held_us); });
  }

  Machine machine_;
  std::function<StandInOptions()> ask_;
  StandInOptions options_;
  Buffer memory_;
  Buffer shortest_ns_;
  int copying_warps_ = 0;
  double held_us_ = 0;  // by the kernel; launch and completion included, options_.duration_us
};

}  // namespace

std::unique_ptr<Workload> MakeStandIn(const Machine& machine, std::size_t most_span_bytes,
                                      std::function<StandInOptions()> options) {
  return std::make_unique<StandIn>(machine, most_span_bytes, std::move(options));
}

std::vector<WorkloadSpec> StandIns(Machine& machine) {
  WorkloadSpec spec;
  spec.name = "StandIn";
  spec.work_class = WorkClass::kComm;
  spec.summary = "takes SMs, cache or memory bandwidth as a communication would: a known cause";
  spec.baseline = false;
  if (machine.device.backend() != Backend::kCuda) spec.missing = "exists on the cuda backend only";
  spec.axes = {IntegerAxis("stand_in_sms", "SMs that it holds", 1, 1024, "16"),
               IntegerAxis("stand_in_us", "how long it holds them", 1, 1'000'000, "1000"),
               IntegerAxis("stand_in_bytes", "bytes that it reads and writes meanwhile, together",
                           0, 1L << 40, "0", "0"),
               BytesAxis("stand_in_span", "memory that it reads from and writes to", "256M")};
  spec.excluded = [&device = machine.device](const Settings& settings) -> std::string {
    if (settings.Integer("stand_in_sms") > device.info().multiprocessors)
      return "stand_in_sms must be at most " + std::to_string(device.info().multiprocessors);
    constexpr long kLeast = 2 * kWordBytes;
    if (settings.Integer("stand_in_span") < kLeast * settings.Integer("stand_in_sms"))
      return "stand_in_span must be at least 32 x stand_in_sms";
    return "";
  };
  spec.footprint = [](const Settings& settings) {
    return Footprint{static_cast<std::size_t>(settings.Integer("stand_in_span")), 0};
  };
  spec.make = [machine](const Settings& settings) {
    const StandInOptions options{static_cast<int>(settings.Integer("stand_in_sms")),
                                 static_cast<double>(settings.Integer("stand_in_us")),
                                 static_cast<std::size_t>(settings.Integer("stand_in_bytes")),
                                 static_cast<std::size_t>(settings.Integer("stand_in_span"))};
    return MakeStandIn(machine, options.span_bytes, [options] { return options; });
  };
  return {spec};
}

}  // namespace overlapbench
