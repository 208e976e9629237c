// FmaKernel, ShortBlocks, ResidentGrid: multiply-adds in registers. Memory is read once before them
// and written once after them.
//
// FmaKernel is bound by the float32 units. Every thread has eight independent chains of
// multiply-adds, more than are needed to hide the latency of one, and there are as many threads as
// the device holds at once. An H200 does 128 multiply-adds per SM and clock.
//
// ShortBlocks and ResidentGrid are the same arithmetic as many short blocks or as one grid that
// stays. They have one chain per thread, so the number of threads bounds them. ShortBlocks is a
// grid of many blocks that each end within microseconds, so that SMs become free all the time.
// ResidentGrid has just as many blocks as fit on the GPU at once. Each works as long as all the
// short ones that would have taken its place, so no SM becomes free before the end.
//
// Cost: 2 operations per step and chain. All values are whole numbers below 2^24, so every result
// is exact and must match to the bit.
#include "device/launch.h"
#include "workload/data.h"
#include "workload/registry.h"

namespace overlapbench {
namespace {

constexpr std::uint32_t kChainsSeed = 6000;
constexpr int kMostInChains = 256;
constexpr long kMostFmaSteps = 10'000'000;
static_assert(kMostInChains + kMostFmaSteps < 1 << 24, "sums must be exact in float32");

template <int kChainsOfThread>
struct ChainsBody {
  static constexpr int kThreads = 256;
  static constexpr int kChains = kChainsOfThread;
  const float* input;
  float* output;
  int steps;
  float one;  // not a constant, so that the compiler keeps the multiplication

  OVERLAPBENCH_BODY void operator()(const Block& block) const {
    const long first = static_cast<long>(block.index) * kThreads * kChains;
    for (int i = block.thread; i < kThreads; i += block.threads) {
      float values[kChains];
      for (int k = 0; k < kChains; ++k) values[k] = input[first + k * kThreads + i];
      for (int step = 0; step < steps; ++step)
        for (int k = 0; k < kChains; ++k) values[k] = values[k] * one + 1.0F;
      for (int k = 0; k < kChains; ++k) output[first + k * kThreads + i] = values[k];
    }
  }

  static long CountOf(int blocks) { return static_cast<long>(blocks) * kThreads * kChains; }
};
using FmaBody = ChainsBody<8>;
using GridBody = ChainsBody<1>;

// The number of blocks that fit on the device at once. A core takes one for each chain of a thread.
template <class Body>
int ResidentBlocks(const Device& device) {
  const int blocks =
      device.backend() == Backend::kHost ? Body::kChains : ResidentBlocksPerMultiprocessor<Body>();
  return device.info().multiprocessors * blocks;
}

template <class Body>
class ChainsWorkload : public Workload {
 public:
  ChainsWorkload(const Machine& machine, int blocks, long steps)
      : machine_(machine),
        blocks_(blocks),
        steps_(static_cast<int>(steps)),
        count_(Body::CountOf(blocks)),
        input_(machine.device.Allocate(count_ * sizeof(float), MemoryKind::kDevice)),
        output_(machine.device.Allocate(count_ * sizeof(float), MemoryKind::kDevice)) {}

  [[nodiscard]] Cost cost() const override {
    return {.flops = 2.0 * static_cast<double>(count_) * steps_};
  }

  void Reset(Stream& stream) override {
    FillIntegers(stream, input_.data(), count_, Element::kFloat32, kChainsSeed, kMostInChains);
    Poison(stream, output_.data(), output_.bytes());
  }

  void Enqueue(Stream& stream) override {
    Launch(stream, blocks_,
           Body{static_cast<const float*>(input_.data()), static_cast<float*>(output_.data()),
                steps_, 1.0F});
  }

  Verdict Verify(Stream& stream) override {
    const ExpectedSegments expected{
        count_, 0, 0, 1, kMostInChains, kChainsSeed, static_cast<double>(steps_)};
    return FindFault(machine_, stream, output_.data(), count_, Element::kFloat32, expected);
  }

 private:
  Machine machine_;
  int blocks_;
  int steps_;
  long count_;
  Buffer input_;
  Buffer output_;
};

WorkloadSpec GridSpec(const Machine& machine, const char* name, const char* summary) {
  const bool host = machine.device.backend() == Backend::kHost;
  WorkloadSpec spec;
  spec.name = name;
  spec.summary = summary;
  spec.axes = {IntegerAxis("waves", "how often the device is filled with blocks", 1, 1024,
                           host ? "16" : "32"),
               IntegerAxis("block_steps", "multiply-adds of each thread of a short block", 1,
                           10'000, "2048")};
  spec.footprint = [&device = machine.device](const Settings& settings) {
    return Footprint{2 * sizeof(float) * settings.Integer("waves") *
                         GridBody::CountOf(ResidentBlocks<GridBody>(device)),
                     0};
  };
  return spec;
}

}  // namespace

std::vector<WorkloadSpec> FmaKernel(Machine& machine) {
  const bool host = machine.device.backend() == Backend::kHost;
  WorkloadSpec spec;
  spec.name = "FmaKernel";
  spec.summary = "float32 multiply-adds in registers on all SMs";
  spec.axes = {IntegerAxis("fma_steps", "multiply-adds of each of a thread's eight chains", 1,
                           kMostFmaSteps, host ? "700" : "10000")};
  spec.footprint = [&device = machine.device](const Settings& /*settings*/) {
    return Footprint{2 * sizeof(float) * FmaBody::CountOf(ResidentBlocks<FmaBody>(device)), 0};
  };
  spec.make = [machine](const Settings& settings) {
    return std::make_unique<ChainsWorkload<FmaBody>>(
        machine, ResidentBlocks<FmaBody>(machine.device), settings.Integer("fma_steps"));
  };
  return {spec};
}

std::vector<WorkloadSpec> BlockGrids(Machine& machine) {
  WorkloadSpec short_blocks = GridSpec(machine, "ShortBlocks", "arithmetic in many short blocks");
  short_blocks.make = [machine](const Settings& settings) {
    const auto waves = static_cast<int>(settings.Integer("waves"));
    return std::make_unique<ChainsWorkload<GridBody>>(
        machine, waves * ResidentBlocks<GridBody>(machine.device), settings.Integer("block_steps"));
  };
  WorkloadSpec resident =
      GridSpec(machine, "ResidentGrid", "the same arithmetic in blocks that stay until the end");
  resident.make = [machine](const Settings& settings) {
    return std::make_unique<ChainsWorkload<GridBody>>(
        machine, ResidentBlocks<GridBody>(machine.device),
        settings.Integer("waves") * settings.Integer("block_steps"));
  };
  return {short_blocks, resident};
}

}  // namespace overlapbench
