// StreamKernel: a bandwidth-bound kernel, c[i] = a[i] + s·b[i], with a chosen number of blocks.
//
// It is the triad of McCalpin's STREAM benchmark on float32 arrays of `array_bytes` each. A few
// blocks use a large share of memory bandwidth and leave most SMs free, so it shows contention for
// memory where the GEMMs show contention for SMs. Cost: 2 operations per element; it reads a and b
// and writes c, 3 · array_bytes.

#include "device/launch.h"
#include "workload/data.h"
#include "workload/find_fault.h"
#include "workload/registry.h"

namespace overlapbench {
namespace {

constexpr float kScale = 0.5F;
constexpr std::uint32_t kSeedA = 1;
constexpr std::uint32_t kSeedB = 2;

struct TriadBody {
  static constexpr int kThreads = 512;
  const float* a;
  const float* b;
  float* c;
  long count;
  OVERLAPBENCH_BODY void operator()(const Block& block) const {
    block.ForEach(count, [this](long i) { c[i] = a[i] + kScale * b[i]; });
  }
};

// The inputs are multiples of 1/128, so every result is exact and must match to the bit.
struct ExpectedTriad {
  [[nodiscard]] OVERLAPBENCH_BODY double At(long i) const {
    return RandomFraction(kSeedA, i) + kScale * RandomFraction(kSeedB, i);
  }
};

class StreamKernelWorkload : public Workload {
 public:
  StreamKernelWorkload(const Machine& machine, const Settings& settings)
      : machine_(machine),
        count_(settings.Integer("array_bytes") / static_cast<long>(sizeof(float))),
        blocks_(static_cast<int>(settings.Integer("blocks"))),
        a_(machine.device.Allocate(count_ * sizeof(float), MemoryKind::kDevice)),
        b_(machine.device.Allocate(count_ * sizeof(float), MemoryKind::kDevice)),
        c_(machine.device.Allocate(count_ * sizeof(float), MemoryKind::kDevice)) {}

  [[nodiscard]] Cost cost() const override {
    return {.flops = 2 * static_cast<double>(count_),
            .moved_bytes = 3 * static_cast<double>(count_) * sizeof(float)};
  }

  void Reset(Stream& stream) override {
    FillFractions(stream, a_.data(), count_, Element::kFloat32, kSeedA);
    FillFractions(stream, b_.data(), count_, Element::kFloat32, kSeedB);
    Poison(stream, c_.data(), c_.bytes());
  }

  void Enqueue(Stream& stream) override {
    Launch(stream, blocks_,
           TriadBody{static_cast<const float*>(a_.data()), static_cast<const float*>(b_.data()),
                     static_cast<float*>(c_.data()), count_});
  }

  Verdict Verify(Stream& stream) override {
    return FindFaultIn(machine_, stream, c_.data(), count_, Element::kFloat32, ExpectedTriad{});
  }

 private:
  Machine machine_;
  long count_;
  int blocks_;
  Buffer a_;
  Buffer b_;
  Buffer c_;
};

}  // namespace

std::vector<WorkloadSpec> StreamKernel(Machine& machine) {
  const bool host = machine.device.backend() == Backend::kHost;
  WorkloadSpec spec;
  spec.name = "StreamKernel";
  spec.summary = "bandwidth-bound triad c = a + s*b with a chosen number of blocks";
  spec.axes = {
      BytesAxis("array_bytes", "size of each of the three arrays", host ? "8M" : "256M"),
      IntegerAxis("blocks", "blocks of 512 threads", 1, 1 << 20, host ? "4" : "32,132,1056")};
  spec.excluded = [](const Settings& settings) {
    return settings.Integer("array_bytes") % 4 == 0 ? "" : "array_bytes must be a multiple of 4";
  };
  spec.footprint = [](const Settings& settings) {
    return Footprint{3 * static_cast<std::size_t>(settings.Integer("array_bytes")), 0};
  };
  spec.make = MakerOf<StreamKernelWorkload>(machine);
  return {spec};
}

}  // namespace overlapbench
