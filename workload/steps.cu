#include <algorithm>

#include "device/launch.h"
#include "workload/data.h"
#include "workload/steps.h"

namespace overlapbench {
namespace {

constexpr std::uint32_t kStepsSeed = 4000;
constexpr int kMostInSteps = 256;
// Small enough for a sixteenth of a small array to fill a GPU.
constexpr long kStepsTile = 256;

struct StepBody {
  static constexpr int kThreads = 256;
  const float* input;
  float* output;
  long count;
  int steps;
  float one;  // not a constant, or the compiler would remove the multiplication

  OVERLAPBENCH_BODY void operator()(const Block& block) const {
    block.ForEach<kStepsTile>(count, [this](long i) {
      float value = input[i];
      for (int step = 0; step < steps; ++step) value = value * one + 1.0F;
      output[i] = value;
    });
  }
};

struct FillBody {
  static constexpr int kThreads = 256;
  float* data;
  long first;
  long count;

  OVERLAPBENCH_BODY void operator()(const Block& block) const {
    block.ForEach(count,
                  [this](long i) { data[i] = RandomInteger(kStepsSeed, first + i, kMostInSteps); });
  }
};

}  // namespace

void EnqueueSteps(Device& device, Stream& stream, float* output, const float* input, long count,
                  int steps) {
  constexpr long kBlocksPerMultiprocessor = 24;
  const long tiles = (count + kStepsTile - 1) / kStepsTile;
  const long most = device.info().multiprocessors * kBlocksPerMultiprocessor;
  Launch(stream, static_cast<int>(std::min(tiles, most)),
         StepBody{input, output, count, steps, 1.0F});
}

void FillSteps(Stream& stream, float* data, long first, long count) {
  constexpr int kBlocks = 512;
  Launch(stream, kBlocks, FillBody{data, first, count});
}

Verdict FindFaultInSteps(const Machine& machine, Stream& stream, const float* data, long first,
                         long count, int steps) {
  const ExpectedSegments expected{
      count, first, 0, 1, kMostInSteps, kStepsSeed, static_cast<double>(steps)};
  return FindFault(machine, stream, data, count, Element::kFloat32, expected);
}

}  // namespace overlapbench
