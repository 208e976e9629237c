// Axpy: y = a·x + y on float32 vectors of `vector_bytes` each. The worked example of
// docs/adding-a-workload.md.
//
// Bound by memory bandwidth. Cost: 2 operations per element; reads x and y, writes y.

#include <vector>

#include "device/launch.h"
#include "workload/data.h"
#include "workload/registry.h"

namespace overlapbench {
namespace {

constexpr int kBlocks = 256;
constexpr float kA = 0.5F;
constexpr std::uint32_t kSeedX = 1;
constexpr std::uint32_t kSeedY = 2;

// One thread's share of one block, for both backends.
struct AxpyBody {
  static constexpr int kThreads = 256;
  const float* x;
  float* y;
  long count;
  OVERLAPBENCH_BODY void operator()(const Block& block) const {
    block.ForEach(count, [this](long i) { y[i] += kA * x[i]; });
  }
};

class AxpyWorkload : public Workload {
 public:
  AxpyWorkload(const Machine& machine, const Settings& settings)
      : machine_(machine),
        count_(settings.Integer("vector_bytes") / static_cast<long>(sizeof(float))),
        x_(machine.device.Allocate(count_ * sizeof(float), MemoryKind::kDevice)),
        y_(machine.device.Allocate(count_ * sizeof(float), MemoryKind::kDevice)) {}

  [[nodiscard]] Cost cost() const override {
    return {.flops = 2 * static_cast<double>(count_),
            .moved_bytes = 3 * static_cast<double>(count_) * sizeof(float)};
  }

  void Reset(Stream& stream) override {
    FillFractions(stream, x_.data(), count_, Element::kFloat32, kSeedX);
    FillFractions(stream, y_.data(), count_, Element::kFloat32, kSeedY);
  }

  void Enqueue(Stream& stream) override {
    Launch(stream, kBlocks,
           AxpyBody{static_cast<const float*>(x_.data()), static_cast<float*>(y_.data()), count_});
  }

  // The inputs are multiples of 1/128 below 1, so every result is exact.
  Verdict Verify(Stream& stream) override {
    std::vector<float> y(count_);
    stream.Copy(y.data(), y_.data(), y_.bytes());
    stream.Synchronize(machine_.timeout, "verifying Axpy");
    for (long i = 0; i < count_; ++i) {
      const float expected = kA * RandomFraction(kSeedX, i) + RandomFraction(kSeedY, i);
      if (y[i] != expected) return {1, 0, "y[" + std::to_string(i) + "] is wrong"};
    }
    return {};
  }

 private:
  Machine machine_;
  long count_;
  Buffer x_;
  Buffer y_;
};

}  // namespace

std::vector<WorkloadSpec> Axpy(Machine& machine) {
  const bool host = machine.device.backend() == Backend::kHost;
  WorkloadSpec spec;
  spec.name = "Axpy";
  spec.summary = "bandwidth-bound y = a*x + y";
  spec.axes = {BytesAxis("vector_bytes", "size of each vector", host ? "4M" : "256M")};
  spec.footprint = [](const Settings& settings) {
    return Footprint{2 * static_cast<std::size_t>(settings.Integer("vector_bytes")), 0};
  };
  spec.make = MakerOf<AxpyWorkload>(machine);
  return {spec};
}

}  // namespace overlapbench
