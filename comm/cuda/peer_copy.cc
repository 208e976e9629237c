// PeerCopy: this rank's GPU writes to the memory of the next visible GPU, by copy engine or by SMs.
//
// Each rank opens the next GPU itself, so it needs a second visible GPU and peer access to it (CUDA
// C++ Programming Guide, "Peer-to-Peer Memory Copy"). Several ranks all copy at once, in a ring.

#include <cuda_runtime.h>

#include "comm/sm_copy.h"
#include "device/cuda/cuda_check.h"
#include "workload/data.h"
#include "workload/registry.h"

namespace overlapbench {
namespace {

constexpr std::uint32_t kSeed = 3000;
constexpr int kMost = 256;

// Makes another device current for the lifetime of this object.
class CurrentDevice {
 public:
  explicit CurrentDevice(int ordinal) {
    CUDA_CHECK(cudaGetDevice(&previous_));
    CUDA_CHECK(cudaSetDevice(ordinal));
  }
  ~CurrentDevice() { cudaSetDevice(previous_); }
  CurrentDevice(const CurrentDevice&) = delete;
  CurrentDevice& operator=(const CurrentDevice&) = delete;

 private:
  int previous_ = 0;
};

int OwnOrdinal() {
  int ordinal = 0;
  CUDA_CHECK(cudaGetDevice(&ordinal));
  return ordinal;
}

int PeerOrdinal() { return (OwnOrdinal() + 1) % VisibleGpus(); }

Buffer AllocateOnPeer(std::size_t bytes) {
  const int peer = PeerOrdinal();
  const cudaError_t enabled = cudaDeviceEnablePeerAccess(peer, 0);
  if (enabled == cudaErrorPeerAccessAlreadyEnabled) {
    cudaGetLastError();  // clear it: it is not an error here
  } else {
    CUDA_CHECK(enabled);
  }
  const CurrentDevice current(peer);
  Memory memory;
  CUDA_CHECK(cudaMemGetInfo(&memory.free_bytes, &memory.total_bytes));
  RequireFree(bytes, memory, "the peer's buffer");
  void* data = nullptr;
  CUDA_CHECK(cudaMalloc(&data, bytes));
  return {data, bytes, [](void* peer_memory) { cudaFree(peer_memory); }};
}

class PeerCopyWorkload : public Workload {
 public:
  PeerCopyWorkload(const Machine& machine, const Settings& settings)
      : machine_(machine),
        bytes_(settings.Integer("bytes")),
        by_sm_(settings.Text("engine") == "sm"),
        own_(machine.device.Allocate(bytes_, MemoryKind::kDevice)),
        peer_(AllocateOnPeer(bytes_)) {}

  [[nodiscard]] Cost cost() const override {
    Cost cost;
    cost.copied_bytes = static_cast<double>(bytes_);
    cost.memory_bytes = 2 * cost.copied_bytes;  // this GPU is also the peer of another rank
    return cost;
  }

  void Reset(Stream& stream) override {
    Poison(stream, own_.data(), bytes_);
    stream.Copy(peer_.data(), own_.data(), bytes_);
    FillIntegers(stream, own_.data(), count(), Element::kInt32, kSeed, kMost);
  }

  void Enqueue(Stream& stream) override {
    if (by_sm_)
      EnqueueSmCopy(machine_.device, stream, peer_.data(), own_.data(), bytes_);
    else
      stream.Copy(peer_.data(), own_.data(), bytes_);
  }

  Verdict Verify(Stream& stream) override {
    Poison(stream, own_.data(), bytes_);
    stream.Copy(own_.data(), peer_.data(), bytes_);
    const ExpectedSegments expected{count(), 0, 0, 1, kMost, kSeed};
    return FindFault(machine_, stream, own_.data(), count(), Element::kInt32, expected);
  }

 private:
  [[nodiscard]] long count() const { return bytes_ / static_cast<long>(sizeof(std::int32_t)); }

  Machine machine_;
  long bytes_;
  bool by_sm_;
  Buffer own_;
  Buffer peer_;
};

std::string Missing(const Machine& machine) {
  if (machine.device.backend() != Backend::kCuda) return "exists on the cuda backend only";
  if (VisibleGpus() < 2) return "needs a second GPU visible to each rank, has 1";
  int can = 0;
  CUDA_CHECK(cudaDeviceCanAccessPeer(&can, OwnOrdinal(), PeerOrdinal()));
  return can != 0 ? ""
                  : "needs peer access from GPU " + std::to_string(OwnOrdinal()) + " to GPU " +
                        std::to_string(PeerOrdinal()) + ", which this machine does not have";
}

}  // namespace

std::vector<WorkloadSpec> PeerCopy(Machine& machine) {
  WorkloadSpec spec;
  spec.name = "PeerCopy";
  spec.work_class = WorkClass::kMemory;
  spec.summary = "copy from this GPU to the next one";
  spec.missing = Missing(machine);
  spec.axes = {BytesAxis("bytes", "size of the copy", "1M,64M,1G"),
               ChoiceAxis("engine", "what copies: a copy engine, or a kernel", {"copy", "sm"},
                          "copy", "copy")};
  spec.by_copy_engine = [](const Settings& settings) { return settings.Text("engine") == "copy"; };
  spec.excluded = [](const Settings& settings) {
    return settings.Integer("bytes") % 4 == 0 ? "" : "bytes must be a multiple of 4";
  };
  spec.footprint = [](const Settings& settings) {
    return Footprint{static_cast<std::size_t>(settings.Integer("bytes")), 0};
  };
  spec.make = MakerOf<PeerCopyWorkload>(machine);
  return {spec};
}

}  // namespace overlapbench
