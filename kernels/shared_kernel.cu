// SharedKernel: bound by the bandwidth of shared memory. Every block copies a tile there once, and
// its threads then read it again and again, 16 bytes at a time.
//
// A tile has kSlabs quads for each lane. In step s, lane l reads those of lane (l + s) mod lanes:
// eight neighbors read 128 consecutive bytes, all banks once, so no access conflicts with another.
// Two blocks of 512 threads fill an SM. On the host backend a tile is small enough for a core's L1
// cache, and one thread is all lanes in turn.
//
// Cost: cached_bytes, what all steps load; an SM's shared memory delivers 128 bytes per clock. A
// lane's sum of what it read is exact.

#include <algorithm>
#include <array>

#include "device/launch.h"
#include "kernels/ring.h"
#include "workload/data.h"
#include "workload/find_fault.h"
#include "workload/registry.h"

namespace overlapbench {
namespace {

using ring::Quad;

constexpr std::uint32_t kSharedSeed = 6300;
constexpr int kSlabs = 4;
constexpr int kGpuLanes = 512;   // threads of a block; a tile of 32 KiB
constexpr int kHostLanes = 128;  // a tile of 8 KiB
constexpr int kGpuBlocks = 2;    // of an SM
constexpr int kHostBlocks = 8;   // of a core

template <int kLanes>
OVERLAPBENCH_BODY std::uint32_t SumOfLane(const Quad* tile, int lane, int steps) {
  static_assert((kLanes & (kLanes - 1)) == 0, "the ring's end is found by a mask");
  std::uint32_t sum = 0;
  int slot = lane;
  for (int step = 0; step < steps; ++step) {
    for (int slab = 0; slab < kSlabs; ++slab) sum += tile[slab * kLanes + slot].Sum();
    slot = (slot + 1) & (kLanes - 1);
  }
  return sum;
}

// What one launch reads and writes: a tile of `input` for each block, a sum for each lane.
struct Tiles {
  const Quad* input;
  std::uint32_t* sums;
  int blocks;
  int steps;
};

#ifdef __CUDACC__
__global__ __launch_bounds__(kGpuLanes, kGpuBlocks) void ReadShared(Tiles tiles) {
  constexpr int kTile = kSlabs * kGpuLanes;
  __shared__ Quad tile[kTile];
  const int lane = static_cast<int>(threadIdx.x);
  const Quad* from = tiles.input + static_cast<long>(blockIdx.x) * kTile;
  for (int i = lane; i < kTile; i += kGpuLanes) tile[i] = from[i];
  __syncthreads();
  tiles.sums[static_cast<long>(blockIdx.x) * kGpuLanes + lane] =
      SumOfLane<kGpuLanes>(tile, lane, tiles.steps);
}

void LaunchReadShared(Stream& stream, const Tiles& tiles) {
  ReadShared<<<tiles.blocks, kGpuLanes, 0, static_cast<cudaStream_t>(stream.native())>>>(tiles);
  CUDA_CHECK(cudaGetLastError());
}
#else
void LaunchReadShared(Stream& /*stream*/, const Tiles& /*tiles*/) {
  throw Error("this build has no CUDA kernels");
}
#endif

void ReadOnCore(const Tiles& tiles, int block) {
  constexpr int kTile = kSlabs * kHostLanes;
  std::array<Quad, kTile> tile{};
  const Quad* from = tiles.input + static_cast<long>(block) * kTile;
  std::copy(from, from + kTile, tile.begin());
  for (int lane = 0; lane < kHostLanes; ++lane) {
    tiles.sums[static_cast<long>(block) * kHostLanes + lane] =
        SumOfLane<kHostLanes>(tile.data(), lane, tiles.steps);
  }
}

struct ExpectedSharedSums {
  int lanes;
  int steps;

  [[nodiscard]] OVERLAPBENCH_BODY double At(long i) const {
    const long tile = i / lanes * kSlabs * lanes;
    std::uint32_t sum = 0;
    for (int slot = 0; slot < lanes; ++slot) {
      const long visits = ring::Visits(lanes, i % lanes, steps, slot);
      if (visits == 0) continue;
      for (int slab = 0; slab < kSlabs; ++slab)
        sum += static_cast<std::uint32_t>(visits) *
               ring::SumOfQuad(kSharedSeed, tile + slab * lanes + slot);
    }
    return ring::AsInt32(sum);
  }
};

struct Shape {
  int blocks;
  int lanes;
  [[nodiscard]] long sums() const { return static_cast<long>(blocks) * lanes; }
  [[nodiscard]] long bytes() const { return sums() * kSlabs * static_cast<long>(sizeof(Quad)); }
};

Shape ShapeOn(const Device& device) {
  const int processors = device.info().multiprocessors;
  if (device.backend() == Backend::kHost) return {processors * kHostBlocks, kHostLanes};
  return {processors * kGpuBlocks, kGpuLanes};
}

class SharedKernelWorkload : public Workload {
 public:
  SharedKernelWorkload(const Machine& machine, int steps)
      : machine_(machine),
        shape_(ShapeOn(machine.device)),
        steps_(steps),
        input_(machine.device.Allocate(shape_.bytes(), MemoryKind::kDevice)),
        sums_(machine.device.Allocate(shape_.sums() * sizeof(std::uint32_t), MemoryKind::kDevice)) {
  }

  [[nodiscard]] Cost cost() const override {
    return {.cached_bytes = static_cast<double>(shape_.bytes()) * steps_};
  }

  void Reset(Stream& stream) override {
    const long words = shape_.bytes() / static_cast<long>(sizeof(std::uint32_t));
    FillIntegers(stream, input_.data(), words, Element::kInt32, kSharedSeed, ring::kMost);
    Poison(stream, sums_.data(), sums_.bytes());
  }

  void Enqueue(Stream& stream) override {
    const Tiles tiles{static_cast<const Quad*>(input_.data()),
                      static_cast<std::uint32_t*>(sums_.data()), shape_.blocks, steps_};
    if (stream.on_host()) {
      stream.EnqueueBlocks(tiles.blocks, [tiles](int block) { ReadOnCore(tiles, block); });
    } else {
      LaunchReadShared(stream, tiles);
    }
  }

  Verdict Verify(Stream& stream) override {
    return FindFaultIn(machine_, stream, sums_.data(), shape_.sums(), Element::kInt32,
                       ExpectedSharedSums{shape_.lanes, steps_});
  }

 private:
  Machine machine_;
  Shape shape_;
  int steps_;
  Buffer input_;
  Buffer sums_;
};

}  // namespace

std::vector<WorkloadSpec> SharedKernel(Machine& machine) {
  WorkloadSpec spec;
  spec.name = "SharedKernel";
  spec.summary = "all SMs read their shared memory";
  spec.axes = {IntegerAxis("shared_steps", "reads of 64 bytes by each thread", 1, 10'000'000,
                           machine.device.backend() == Backend::kHost ? "1000" : "2700")};
  spec.footprint = [&device = machine.device](const Settings& /*settings*/) {
    const Shape shape = ShapeOn(device);
    return Footprint{shape.bytes() + shape.sums() * sizeof(std::uint32_t), 0};
  };
  spec.make = [machine](const Settings& settings) {
    return std::make_unique<SharedKernelWorkload>(
        machine, static_cast<int>(settings.Integer("shared_steps")));
  };
  return {spec};
}

}  // namespace overlapbench
