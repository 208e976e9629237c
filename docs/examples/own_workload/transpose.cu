// Transpose: a square matrix of float32, n × n, with rows and columns exchanged. The worked example
// of a workload outside of overlapbench's tree (docs/adding-a-workload.md, "Out of tree").
//
// Where overlapbench is installed in ~/overlapbench:
//
//   cmake -B build -DCMAKE_PREFIX_PATH=$HOME/overlapbench
//   cmake --build build
//   build/bench --benchmark_filter=Compute/Transpose
//   mpirun -n 2 --bind-to none build/bench --pair AllReduce+Transpose
//
// Bound by memory bandwidth: each element is read once and written once. Neighboring threads read
// neighboring elements and write n elements apart, so this is a simple kernel and not a fast one.

#include <memory>
#include <string>
#include <vector>

#include "device/launch.h"
#include "workload/data.h"
#include "workload/registry.h"

namespace overlapbench {
namespace {

constexpr int kBlocks = 256;
constexpr std::uint32_t kSeed = 1;

// One thread's share of one block, on a GPU and on the host backend.
struct TransposeBody {
  static constexpr int kThreads = 256;
  const float* in;
  float* out;
  long n;
  OVERLAPBENCH_BODY void operator()(const Block& block) const {
    block.ForEach(n * n, [this](long i) { out[i % n * n + i / n] = in[i]; });
  }
};

class TransposeWorkload : public Workload {
 public:
  TransposeWorkload(const Machine& machine, long n)
      : machine_(machine),
        n_(n),
        in_(machine.device.Allocate(n * n * sizeof(float), MemoryKind::kDevice)),
        out_(machine.device.Allocate(n * n * sizeof(float), MemoryKind::kDevice)) {}

  [[nodiscard]] Cost cost() const override {
    return {.moved_bytes = static_cast<double>(in_.bytes() + out_.bytes())};
  }

  void Reset(Stream& stream) override {
    FillFractions(stream, in_.data(), n_ * n_, Element::kFloat32, kSeed);
    Poison(stream, out_.data(), out_.bytes());
  }

  void Enqueue(Stream& stream) override {
    Launch(
        stream, kBlocks,
        TransposeBody{static_cast<const float*>(in_.data()), static_cast<float*>(out_.data()), n_});
  }

  // A transpose only moves its elements, so each must be exactly what it was.
  Verdict Verify(Stream& stream) override {
    std::vector<float> out(n_ * n_);
    stream.Copy(out.data(), out_.data(), out_.bytes());
    stream.Synchronize(machine_.timeout, "verifying Transpose");
    for (long i = 0; i < n_ * n_; ++i) {
      if (out[i] != RandomFraction(kSeed, i % n_ * n_ + i / n_))
        return {1, 0, "out[" + std::to_string(i) + "] is wrong"};
    }
    return {};
  }

 private:
  Machine machine_;
  long n_;
  Buffer in_;
  Buffer out_;
};

}  // namespace

// The bench's CMakeLists.txt names this function under WORKLOADS.
std::vector<WorkloadSpec> Transpose(Machine& machine) {
  const bool host = machine.device.backend() == Backend::kHost;
  WorkloadSpec spec;
  spec.name = "Transpose";
  spec.summary = "exchanges rows and columns of a float32 matrix";
  spec.axes = {IntegerAxis("n", "rows and columns", 1, 1 << 16, host ? "1024" : "8192")};
  spec.footprint = [](const Settings& settings) {
    const auto n = static_cast<std::size_t>(settings.Integer("n"));
    return Footprint{2 * n * n * sizeof(float), 0};
  };
  spec.make = [machine](const Settings& settings) {
    return std::make_unique<TransposeWorkload>(machine, settings.Integer("n"));
  };
  return {spec};
}

}  // namespace overlapbench
