#include <cuda_runtime.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <thread>
#include <vector>

#include "comm/stand_in.h"
#include "device/cuda/cuda_check.h"
#include "device/cuda/cuda_stream.h"
#include "workload/data.h"
#include "workload/registry.h"

namespace overlapbench {
namespace {

constexpr int kThreads = 1024;
constexpr std::uint32_t kSeed = 8000;
constexpr int kMost = 256;

__device__ unsigned long long NowNs() {
  unsigned long long now_ns = 0;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now_ns));
  return now_ns;
}

// Some registers of every thread, kept in use for as long as this lives, so that no other block
// finds room on the SM: with the kernel's own they are 64 a thread.
struct HeldRegisters {
  unsigned held[24];

  __device__ explicit HeldRegisters(unsigned seed) {
#pragma unroll
    for (unsigned& one : held) asm volatile("mov.u32 %0, %1;" : "=r"(one) : "r"(seed));
  }
  __device__ void Keep() {
#pragma unroll
    for (unsigned& one : held) asm volatile("" : "+r"(one));
  }
};

// `words` of 16 bytes of a block are copied in `slices`, evenly over the time.
struct StandInTask {
  const uint4* from;
  uint4* to;
  long span_words;   // of each of the two
  long block_words;  // that a block copies
  int slices;
  unsigned long long duration_ns;
  unsigned long long* longest_ns;  // that a block has taken
};

__device__ void CopySlice(const StandInTask& task, int slice) {
  const long begin = task.block_words * slice / task.slices;
  const long end = task.block_words * (slice + 1) / task.slices;
  const long offset = task.block_words * blockIdx.x;
  constexpr int kInFlight = 8;
  for (long first = begin + threadIdx.x; first < end; first += kThreads * kInFlight) {
    uint4 words[kInFlight];
#pragma unroll
    for (int i = 0; i < kInFlight; ++i) {
      const long at = first + static_cast<long>(i) * kThreads;
      if (at < end) words[i] = task.from[(offset + at) % task.span_words];
    }
#pragma unroll
    for (int i = 0; i < kInFlight; ++i) {
      const long at = first + static_cast<long>(i) * kThreads;
      if (at < end) task.to[(offset + at) % task.span_words] = words[i];
    }
  }
}

__global__ __launch_bounds__(kThreads, 1) void HoldAndCopy(StandInTask task) {
  HeldRegisters registers(threadIdx.x);
  const unsigned long long started_ns = NowNs();
  for (int slice = 0; slice < task.slices; ++slice) {
    if (task.block_words > 0) CopySlice(task, slice);
    registers.Keep();
    // Each warp for itself: the loads of one are in flight while another waits.
    const unsigned long long due_ns = task.duration_ns * (slice + 1) / task.slices;
    while (NowNs() - started_ns < due_ns) __nanosleep(500);
  }
  registers.Keep();
  if (threadIdx.x == 0) atomicMax(task.longest_ns, NowNs() - started_ns);
}

// Lets the pieces of a copy by engine begin evenly spread over the time: a kernel could not, which
// waits where a computation fills the SMs. The driver calls it on a thread of its own, in the order
// of the stream.
class Pacer {
 public:
  Pacer(long pieces, std::chrono::nanoseconds duration)
      : pieces_(pieces), interval_(duration / pieces) {}
  void EnqueueWait(Stream& stream) {
    CUDA_CHECK(cudaLaunchHostFunc(NativeStream(stream), &Pacer::Wait, this));
  }

 private:
  using Clock = std::chrono::steady_clock;

  static void Wait(void* pacer) {
    auto& self = *static_cast<Pacer*>(pacer);
    if (self.next_ == 0) self.started_ = Clock::now();
    const auto due = self.started_ + self.next_ * self.interval_;
    while (Clock::now() < due) std::this_thread::yield();
    self.next_ = (self.next_ + 1) % self.pieces_;
  }

  long pieces_;
  std::chrono::nanoseconds interval_;
  long next_ = 0;
  Clock::time_point started_;
};

class StandIn : public Workload {
 public:
  StandIn(const Machine& machine, std::size_t most_span_bytes,
          std::function<StandInOptions()> options)
      : machine_(machine),
        ask_(std::move(options)),
        memory_(machine.device.Allocate(most_span_bytes, MemoryKind::kDevice)),
        longest_ns_(machine.device.Allocate(sizeof(unsigned long long), MemoryKind::kDevice)) {}

  void Connect() override {
    options_ = ask_();
    const std::chrono::duration<double, std::micro> duration(options_.duration_us);
    pacer_.emplace(kPieces, std::chrono::duration_cast<std::chrono::nanoseconds>(duration));
  }

  [[nodiscard]] Cost cost() const override {
    Cost cost;
    cost.moved_bytes = static_cast<double>(options_.moved_bytes);
    return cost;
  }

  // Both halves hold the same, so that a copy of any part of one to the same place of the other
  // leaves them as they are once it is complete.
  void Reset(Stream& stream) override {
    FillIntegers(stream, memory_.data(), count(), Element::kInt32, kSeed, kMost);
    Poison(stream, to(), half_bytes());
    CUDA_CHECK(cudaMemsetAsync(longest_ns_.data(), 0, longest_ns_.bytes(), NativeStream(stream)));
  }

  void Enqueue(Stream& stream) override {
    if (options_.sms > 0)
      HoldAndCopy<<<options_.sms, kThreads, 0, NativeStream(stream)>>>(Task());
    else
      EnqueueCopies(stream);
    CUDA_CHECK(cudaGetLastError());
  }

  Verdict Verify(Stream& stream) override {
    unsigned long long longest_ns = 0;
    stream.Copy(&longest_ns, longest_ns_.data(), sizeof(longest_ns));
    stream.Synchronize(machine_.timeout, "verifying StandIn");
    if (options_.sms > 0 && static_cast<double>(longest_ns) < 1000 * options_.duration_us)
      return {1, 0, "the stand-in ended before its time"};
    const long copied = std::min(BytesToCopy() / (kPieces * 16) * (kPieces * 16), half_bytes()) / 4;
    if (copied == 0) return {};
    const ExpectedSegments expected{count(), 0, 0, 1, kMost, kSeed};
    return FindFault(machine_, stream, to(), copied, Element::kInt32, expected);
  }

  [[nodiscard]] std::optional<long> sms() const override { return options_.sms; }

 private:
  [[nodiscard]] long count() const { return half_bytes() / 4; }
  [[nodiscard]] long half_bytes() const {
    const auto span = static_cast<long>(std::min(options_.span_bytes, memory_.bytes()));
    return span / 2 / 16 * 16;
  }
  [[nodiscard]] std::byte* to() const {
    return static_cast<std::byte*>(memory_.data()) + half_bytes();
  }
  // Every block's share is whole words.
  [[nodiscard]] long block_words() const {
    constexpr long kReadAndWritten = 2;
    const long blocks = std::max(options_.sms, 1);
    return static_cast<long>(options_.moved_bytes) / kReadAndWritten / 16 / blocks;
  }
  [[nodiscard]] long BytesToCopy() const {
    return half_bytes() == 0 ? 0 : block_words() * 16 * std::max(options_.sms, 1);
  }

  [[nodiscard]] StandInTask Task() const {
    constexpr double kSlice_us = 50;
    const int slices = std::max(static_cast<int>(options_.duration_us / kSlice_us), 1);
    return {static_cast<const uint4*>(memory_.data()),
            reinterpret_cast<uint4*>(to()),
            std::max(half_bytes() / 16, 1L),
            half_bytes() == 0 ? 0 : block_words(),
            slices,
            static_cast<unsigned long long>(1000 * options_.duration_us),
            static_cast<unsigned long long*>(longest_ns_.data())};
  }

  void EnqueueCopies(Stream& stream) {
    const long piece = BytesToCopy() / kPieces / 16 * 16;
    if (piece == 0) return;
    long offset = 0;
    for (long i = 0; i < kPieces; ++i) {
      pacer_->EnqueueWait(stream);
      for (long left = piece; left > 0;) {
        const long bytes = std::min(left, half_bytes() - offset);
        EnqueueEngineCopy(stream, {to() + offset, static_cast<std::byte*>(memory_.data()) + offset,
                                   static_cast<std::size_t>(bytes)});
        left -= bytes;
        offset = (offset + bytes) % half_bytes();
      }
    }
  }

  static constexpr long kPieces = 16;

  Machine machine_;
  std::function<StandInOptions()> ask_;
  StandInOptions options_;
  Buffer memory_;
  Buffer longest_ns_;
  std::optional<Pacer> pacer_;  // of copies by engine
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
  spec.axes = {IntegerAxis("stand_in_sms", "SMs that it holds; 0: none, a copy engine copies", 0,
                           1024, "16"),
               IntegerAxis("stand_in_us", "how long it holds them", 1, 1'000'000, "1000"),
               IntegerAxis("stand_in_bytes", "bytes that it reads and writes meanwhile, together",
                           0, 1L << 40, "0", "0"),
               BytesAxis("stand_in_span", "memory that it reads from and writes to", "256M")};
  spec.excluded = [&device = machine.device](const Settings& settings) -> std::string {
    if (settings.Integer("stand_in_sms") > device.info().multiprocessors)
      return "stand_in_sms must be at most " + std::to_string(device.info().multiprocessors);
    if (settings.Integer("stand_in_sms") == 0 && settings.Integer("stand_in_bytes") == 0)
      return "a stand-in without SMs needs stand_in_bytes";
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
