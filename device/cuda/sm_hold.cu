#include <cuda_runtime.h>

#include <thread>

#include "device/cuda/cuda_check.h"
#include "device/cuda/cuda_stream.h"
#include "device/cuda/device_attribute.h"
#include "device/cuda/gpu_clock.h"
#include "device/cuda/host_word.h"
#include "device/cuda/sm_hold.h"
#include "device/wait.h"

namespace overlapbench {
namespace {

using HoldClock = std::chrono::steady_clock;

constexpr int kHoldThreads = 512;  // divides the number of threads that any SM holds
constexpr auto kHold = std::chrono::seconds(1);
constexpr auto kMostHold = 4 * kHold;  // then the blocks end by themselves
// The pause between two reads of host memory: the longest that __nanosleep allows. A thousand
// blocks that poll without a pause saturate PCIe, which also carries commands to the GPU: an
// all-reduce's copies of 5 ms took 1500 (1 GiB, two H100).
constexpr unsigned kNap_ns = 1'000'000;

// `held`: set to 1 once all blocks run, which are counted in `running`, since a GPU has no atomics
// on host memory over PCIe. They may end once `free` is not 0. Also ends by itself, in case the
// host dies. All threads loop and meet at one barrier. A barrier in a branch that only some threads
// of a warp take is undefined (CUDA C++ Programming Guide, "Synchronization Functions"): it let the
// other threads pass, and other kernels' blocks start.
__global__ __launch_bounds__(kHoldThreads) void Hold(volatile std::uint32_t* held,
                                                     const volatile std::uint32_t* free,
                                                     unsigned* running,
                                                     unsigned long long most_ns) {
  const std::uint64_t started_ns = GpuNow_ns();
  const bool is_leader = threadIdx.x == 0;
  if (is_leader && atomicAdd(running, 1) + 1 == gridDim.x) *held = 1;
  bool is_released = false;
  do {
    __nanosleep(kNap_ns);
    is_released = is_leader && (*free != 0 || GpuNow_ns() - started_ns >= most_ns);
  } while (__syncthreads_or(is_released) == 0);
}

class Holder {
 public:
  explicit Holder(Device& device)
      : stream_(device.CreateStream()),
        running_(device.Allocate(sizeof(unsigned), MemoryKind::kDevice)) {
    const int threads = DeviceAttribute(cudaDevAttrMaxThreadsPerMultiProcessor);
    blocks_ = device.info().multiprocessors * (threads / kHoldThreads);
  }
  ~Holder() {
    Free();
    cudaStreamSynchronize(NativeStream(*stream_));
  }
  Holder(const Holder&) = delete;
  Holder& operator=(const Holder&) = delete;

  // Returns when every SM is full; throws Error if that takes longer than kHold.
  void Take() {
    launched_ = HoldClock::now();
    CUDA_CHECK(cudaMemsetAsync(running_.data(), 0, sizeof(unsigned), NativeStream(*stream_)));
    Hold<<<blocks_, kHoldThreads, 0, NativeStream(*stream_)>>>(
        held_.on_device(), free_.on_device(), static_cast<unsigned*>(running_.data()),
        std::chrono::nanoseconds(kMostHold).count());
    CUDA_CHECK(cudaGetLastError());
    const auto all_run = [this] { return held_.Load() != 0; };
    if (!WaitUntil(all_run, kHold)) throw Error("other work holds SMs, so not all can be held");
  }
  // Whether no block can have ended by itself yet. Blocks must end by themselves, because a CUDA
  // call that waits for an idle GPU would otherwise never return. A kernel's first launch, which
  // loads it, is such a call.
  [[nodiscard]] bool StillHolds() const { return HoldClock::now() - launched_ < kMostHold; }
  void Free() { free_.Store(1); }

 private:
  std::unique_ptr<Stream> stream_;
  Buffer running_;
  HoldClock::time_point launched_;
  HostWord held_;
  HostWord free_;
  int blocks_ = 0;
};

}  // namespace

bool FinishesWithoutSms(Device& device, const HeldWork& work) {
  const auto stream = device.CreateStream();
  const auto done = device.CreateEvent({.timed = false});
  Holder holder(device);
  work.together([&] { holder.Take(); });
  work.enqueue(*stream);
  stream->Record(*done);
  const bool finished = done->Await(kHold) && holder.StillHolds();
  holder.Free();
  stream->Synchronize(work.timeout, "work that should need no SM");
  return finished;
}

}  // namespace overlapbench
