// FmaKernel: bound by the float32 units. Chains of multiply-adds in registers, on all SMs.
//
// Every thread has eight independent chains, more than are needed to hide the latency of a
// multiply-add, and there are as many threads as the device holds at once. Memory is read once
// before the chains and written once after them. ShortBlocks and ResidentGrid have one chain per
// thread, so the number of threads bounds them.
//
// Cost: 2 operations per step and chain. An H200 does 128 multiply-adds per SM and clock. All
// values are whole numbers below 2^24, so every result is exact and must match to the bit.

#include "device/launch.h"
#include "workload/data.h"
#include "workload/registry.h"

namespace overlapbench {
namespace {

constexpr std::uint32_t kFmaSeed = 6100;
constexpr int kMostInFma = 256;
constexpr long kMostFmaSteps = 10'000'000;
static_assert(kMostInFma + kMostFmaSteps < 1 << 24, "sums must be exact in float32");

struct FmaBody {
  static constexpr int kThreads = 256;
  static constexpr int kChains = 8;
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
};

// The number of blocks that fit on the device at once.
int FmaBlocks(const Device& device) {
  constexpr int kBlocksPerCore = 8;
  const int blocks = device.backend() == Backend::kHost
                         ? kBlocksPerCore
                         : ResidentBlocksPerMultiprocessor<FmaBody>();
  return device.info().multiprocessors * blocks;
}

long ChainsOf(int blocks) {
  return static_cast<long>(blocks) * FmaBody::kThreads * FmaBody::kChains;
}

class FmaKernelWorkload : public Workload {
 public:
  FmaKernelWorkload(const Machine& machine, int steps)
      : machine_(machine),
        steps_(steps),
        blocks_(FmaBlocks(machine.device)),
        chains_(ChainsOf(blocks_)),
        input_(machine.device.Allocate(chains_ * sizeof(float), MemoryKind::kDevice)),
        output_(machine.device.Allocate(chains_ * sizeof(float), MemoryKind::kDevice)) {}

  [[nodiscard]] Cost cost() const override {
    Cost cost;
    cost.flops = 2.0 * static_cast<double>(chains_) * steps_;
    return cost;
  }

  void Reset(Stream& stream) override {
    FillIntegers(stream, input_.data(), chains_, Element::kFloat32, kFmaSeed, kMostInFma);
    Poison(stream, output_.data(), output_.bytes());
  }

  void Enqueue(Stream& stream) override {
    Launch(stream, blocks_,
           FmaBody{static_cast<const float*>(input_.data()), static_cast<float*>(output_.data()),
                   steps_, 1.0F});
  }

  Verdict Verify(Stream& stream) override {
    const ExpectedSegments expected{
        chains_, 0, 0, 1, kMostInFma, kFmaSeed, static_cast<double>(steps_)};
    return FindFault(machine_, stream, output_.data(), chains_, Element::kFloat32, expected);
  }

 private:
  Machine machine_;
  int steps_;
  int blocks_;
  long chains_;
  Buffer input_;
  Buffer output_;
};

}  // namespace

std::vector<WorkloadSpec> FmaKernel(Machine& machine) {
  const bool host = machine.device.backend() == Backend::kHost;
  WorkloadSpec spec;
  spec.name = "FmaKernel";
  spec.work_class = WorkClass::kCompute;
  spec.summary = "float32 multiply-adds in registers on all SMs";
  spec.axes = {IntegerAxis("fma_steps", "multiply-adds of each of a thread's eight chains", 1,
                           kMostFmaSteps, host ? "700" : "10000")};
  spec.footprint = [&device = machine.device](const Settings& /*settings*/) {
    return Footprint{2 * sizeof(float) * ChainsOf(FmaBlocks(device)), 0};
  };
  spec.make = [machine](const Settings& settings) {
    return std::make_unique<FmaKernelWorkload>(machine,
                                               static_cast<int>(settings.Integer("fma_steps")));
  };
  return {spec};
}

}  // namespace overlapbench
