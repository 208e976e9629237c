// L2Kernel: bound by the last-level cache. All SMs read one buffer that stays there, again and
// again.
//
// The buffer is cut into tiles. In pass p, block b of B reads the tiles t with t mod B = (b + p)
// mod B: every pass reads the whole buffer once, and each block reaches every part of it in turn.
// On a GPU the loads bypass the L1 cache (ld.global.cg), which would keep a block's tiles. The L2
// of an H100 or H200 has two halves, which may both hold a line: the default of 24 MiB fits into
// one, of 25 or 30 MiB. With cache:cold the first pass reads device memory.
//
// Cost: cached_bytes, what all passes load. A thread's sum of what it read is exact.

#include "device/launch.h"
#include "kernels/ring.h"
#include "workload/data.h"
#include "workload/find_fault.h"
#include "workload/registry.h"

namespace overlapbench {
namespace {

using ring::Quad;

constexpr std::uint32_t kL2Seed = 6200;
constexpr int kInFlight = 4;  // loads of a thread
constexpr int kL2Threads = 256;
constexpr long kL2Tile = static_cast<long>(kInFlight) * kL2Threads;  // quads
constexpr long kL2TileBytes = kL2Tile * static_cast<long>(sizeof(Quad));

OVERLAPBENCH_BODY inline Quad LoadPastL1(const Quad* quad) {
#ifdef __CUDA_ARCH__
  const uint4 words = __ldcg(reinterpret_cast<const uint4*>(quad));
  return {{words.x, words.y, words.z, words.w}};
#else
  return *quad;
#endif
}

struct ReadTilesBody {
  static constexpr int kThreads = kL2Threads;
  const Quad* data;
  std::uint32_t* sums;  // one a thread
  long tiles;
  int passes;

  OVERLAPBENCH_BODY void operator()(const Block& block) const {
    std::uint32_t sum = 0;
    for (int pass = 0; pass < passes; ++pass) {
      const int slot = (block.index + pass) % block.count;
      for (long tile = slot; tile < tiles; tile += block.count) sum += SumOfTile(block, tile);
    }
    sums[static_cast<long>(block.index) * block.threads + block.thread] = sum;
  }

  // This thread's share of the tile.
  [[nodiscard]] OVERLAPBENCH_BODY std::uint32_t SumOfTile(const Block& block, long tile) const {
    const Quad* from = data + tile * kL2Tile;
    std::uint32_t sum = 0;
    for (int i = block.thread; i < kL2Tile; i += kInFlight * block.threads) {
      Quad quads[kInFlight];
      for (int k = 0; k < kInFlight; ++k) quads[k] = LoadPastL1(from + i + k * block.threads);
      for (int k = 0; k < kInFlight; ++k) sum += quads[k].Sum();
    }
    return sum;
  }
};

struct ExpectedL2Sums {
  int blocks;
  int threads;  // of a block
  long tiles;
  int passes;

  [[nodiscard]] OVERLAPBENCH_BODY double At(long i) const {
    std::uint32_t sum = 0;
    for (int slot = 0; slot < blocks; ++slot) {
      const long visits = ring::Visits(blocks, i / threads, passes, slot);
      if (visits > 0) sum += static_cast<std::uint32_t>(visits) * SumOfSlot(slot, i % threads);
    }
    return ring::AsInt32(sum);
  }

  [[nodiscard]] OVERLAPBENCH_BODY std::uint32_t SumOfSlot(int slot, long thread) const {
    std::uint32_t sum = 0;
    for (long tile = slot; tile < tiles; tile += blocks)
      for (long quad = thread; quad < kL2Tile; quad += threads)
        sum += ring::SumOfQuad(kL2Seed, tile * kL2Tile + quad);
    return sum;
  }
};

// The number of blocks that fit on the device at once.
int L2Blocks(const Device& device) {
  constexpr int kBlocksPerCore = 4;
  const int blocks = device.backend() == Backend::kHost
                         ? kBlocksPerCore
                         : ResidentBlocksPerMultiprocessor<ReadTilesBody>();
  return device.info().multiprocessors * blocks;
}

int ThreadsFor(const Device& device) {
  return device.backend() == Backend::kHost ? 1 : ReadTilesBody::kThreads;
}

class L2KernelWorkload : public Workload {
 public:
  L2KernelWorkload(const Machine& machine, const Settings& settings)
      : machine_(machine),
        bytes_(settings.Integer("l2_bytes")),
        passes_(static_cast<int>(settings.Integer("l2_passes"))),
        blocks_(L2Blocks(machine.device)),
        threads_(ThreadsFor(machine.device)),
        sum_count_(static_cast<long>(blocks_) * threads_),
        data_(machine.device.Allocate(bytes_, MemoryKind::kDevice)),
        sums_(machine.device.Allocate(sum_count_ * sizeof(std::uint32_t), MemoryKind::kDevice)) {}

  [[nodiscard]] Cost cost() const override {
    return {.cached_bytes = static_cast<double>(bytes_) * passes_};
  }

  void Reset(Stream& stream) override {
    const long words = bytes_ / static_cast<long>(sizeof(std::uint32_t));
    FillIntegers(stream, data_.data(), words, Element::kInt32, kL2Seed, ring::kMost);
    Poison(stream, sums_.data(), sums_.bytes());
  }

  void Enqueue(Stream& stream) override {
    Launch(
        stream, blocks_,
        ReadTilesBody{static_cast<const Quad*>(data_.data()),
                      static_cast<std::uint32_t*>(sums_.data()), bytes_ / kL2TileBytes, passes_});
  }

  Verdict Verify(Stream& stream) override {
    const ExpectedL2Sums expected{blocks_, threads_, bytes_ / kL2TileBytes, passes_};
    return FindFaultIn(machine_, stream, sums_.data(), sum_count_, Element::kInt32, expected);
  }

 private:
  Machine machine_;
  long bytes_;
  int passes_;
  int blocks_;
  int threads_;  // of a block
  long sum_count_;
  Buffer data_;
  Buffer sums_;
};

}  // namespace

std::vector<WorkloadSpec> L2Kernel(Machine& machine) {
  const bool host = machine.device.backend() == Backend::kHost;
  WorkloadSpec spec;
  spec.name = "L2Kernel";
  spec.summary = "all SMs read a buffer that stays in the last-level cache";
  spec.axes = {
      BytesAxis("l2_bytes", "size of the buffer, a multiple of 16K", host ? "1M" : "24M"),
      IntegerAxis("l2_passes", "how often it is read", 1, 1'000'000, host ? "100" : "300")};
  spec.excluded = [](const Settings& settings) {
    return settings.Integer("l2_bytes") % kL2TileBytes == 0 ? ""
                                                            : "l2_bytes must be a multiple of 16K";
  };
  spec.footprint = [&device = machine.device](const Settings& settings) {
    const std::size_t sums = static_cast<std::size_t>(L2Blocks(device)) * ThreadsFor(device);
    return Footprint{settings.Integer("l2_bytes") + sums * sizeof(std::uint32_t), 0};
  };
  spec.make = MakerOf<L2KernelWorkload>(machine);
  return {spec};
}

}  // namespace overlapbench
