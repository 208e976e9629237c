// BlockGrid: the same arithmetic as many short blocks or as one grid that stays.
//
// ShortBlocks is a grid of many blocks that each end within microseconds, so that SMs become free
// all the time. ResidentGrid has just as many blocks as fit on the GPU at once. Each works as long
// as all the short ones that would have taken its place, so no SM becomes free before the end. The
// work is that of workload/steps.h, on one value per thread, waves · block_steps steps in all.

#include "device/launch.h"
#include "workload/data.h"
#include "workload/registry.h"

namespace overlapbench {
namespace {

constexpr std::uint32_t kGridSeed = 6000;
constexpr int kMostInGrid = 256;

struct BlockStepsBody {
  static constexpr int kThreads = 256;
  const float* input;
  float* output;
  int values;  // of a block
  int steps;
  float one;  // not a constant, so that the compiler keeps the multiplication

  OVERLAPBENCH_BODY void operator()(const Block& block) const {
    for (int i = block.thread; i < values; i += block.threads) {
      const long at = static_cast<long>(block.index) * values + i;
      float value = input[at];
      for (int step = 0; step < steps; ++step) value = value * one + 1.0F;
      output[at] = value;
    }
  }
};

class BlockGridWorkload : public Workload {
 public:
  BlockGridWorkload(const Machine& machine, int blocks, int steps)
      : machine_(machine),
        blocks_(blocks),
        steps_(steps),
        output_(machine.device.Allocate(count() * sizeof(float), MemoryKind::kDevice)),
        input_(machine.device.Allocate(count() * sizeof(float), MemoryKind::kDevice)) {}

  [[nodiscard]] Cost cost() const override {
    Cost cost;
    cost.flops = 2.0 * static_cast<double>(count()) * steps_;
    return cost;
  }

  void Reset(Stream& stream) override {
    FillIntegers(stream, input_.data(), count(), Element::kFloat32, kGridSeed, kMostInGrid);
    Poison(stream, output_.data(), output_.bytes());
  }

  void Enqueue(Stream& stream) override {
    Launch(stream, blocks_,
           BlockStepsBody{static_cast<const float*>(input_.data()),
                          static_cast<float*>(output_.data()), kValues, steps_, 1.0F});
  }

  Verdict Verify(Stream& stream) override {
    const ExpectedSegments expected{
        count(), 0, 0, 1, kMostInGrid, kGridSeed, static_cast<double>(steps_)};
    return FindFault(machine_, stream, output_.data(), count(), Element::kFloat32, expected);
  }

 private:
  static constexpr int kValues = BlockStepsBody::kThreads;
  [[nodiscard]] long count() const { return static_cast<long>(blocks_) * kValues; }

  Machine machine_;
  int blocks_;
  int steps_;
  Buffer output_;
  Buffer input_;
};

// How many of the blocks are on the device at once.
int ResidentBlocks(const Device& device) {
  const int blocks =
      device.backend() == Backend::kHost ? 1 : ResidentBlocksPerMultiprocessor<BlockStepsBody>();
  return device.info().multiprocessors * blocks;
}

WorkloadSpec SpecOf(const Machine& machine, const char* name, const char* summary) {
  const bool host = machine.device.backend() == Backend::kHost;
  WorkloadSpec spec;
  spec.name = name;
  spec.work_class = WorkClass::kCompute;
  spec.summary = summary;
  spec.axes = {IntegerAxis("waves", "how often the device is filled with blocks", 1, 1024,
                           host ? "16" : "32"),
               IntegerAxis("block_steps", "multiply-adds of each thread of a short block", 1,
                           10'000, "2048")};
  spec.footprint = [&device = machine.device](const Settings& settings) {
    return Footprint{2 * sizeof(float) * settings.Integer("waves") * ResidentBlocks(device) *
                         BlockStepsBody::kThreads,
                     0};
  };
  return spec;
}

}  // namespace

std::vector<WorkloadSpec> BlockGrids(Machine& machine) {
  WorkloadSpec short_blocks = SpecOf(machine, "ShortBlocks", "arithmetic in many short blocks");
  short_blocks.make = [machine](const Settings& settings) {
    const auto waves = static_cast<int>(settings.Integer("waves"));
    return std::make_unique<BlockGridWorkload>(machine, waves * ResidentBlocks(machine.device),
                                               static_cast<int>(settings.Integer("block_steps")));
  };
  WorkloadSpec resident =
      SpecOf(machine, "ResidentGrid", "the same arithmetic in blocks that stay until the end");
  resident.make = [machine](const Settings& settings) {
    const long steps = settings.Integer("waves") * settings.Integer("block_steps");
    return std::make_unique<BlockGridWorkload>(machine, ResidentBlocks(machine.device),
                                               static_cast<int>(steps));
  };
  return {short_blocks, resident};
}

}  // namespace overlapbench
