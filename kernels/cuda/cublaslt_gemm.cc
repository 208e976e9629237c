// CublasGemm: cuBLASLt's matrix product C = A·B on n×n matrices, the kernel that production code
// runs.
//
// `precision` is bf16 or fp16 (inputs and output), tf32 (float32 in memory, tensor cores), fp32, or
// fp8 (e4m3 inputs, bf16 output, without fast accumulation, which is the library's default). With
// fp8 B is stored transposed, because Hopper's tensor cores read 8-bit operands along k only. All
// products accumulate in float32. `repeat` products run back to back. Cost: 2·n³ operations per
// product.
//
// `sm_target` is CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET: a hint that asks the library's heuristic to
// leave the other SMs free. It may also select another kernel. Whether it changed any grid is
// checked by capturing the launch.

#include <algorithm>
#include <array>

#include "kernels/cublaslt.h"
#include "kernels/gemm_oracle.h"
#include "workload/registry.h"
#include "workload/sample_check.h"

namespace overlapbench {
namespace {

class CublasGemmWorkload : public Workload {
 public:
  CublasGemmWorkload(const Machine& machine, const Settings& settings)
      : machine_(machine),
        precision_(PrecisionNamed(settings.Text("precision"))),
        n_(settings.Integer("n")),
        repeat_(settings.Integer("repeat")),
        sm_target_(static_cast<int>(settings.Integer("sm_target"))),
        a_(Allocate(precision_.input)),
        b_(Allocate(precision_.input)),
        c_(Allocate(precision_.output)),
        library_(machine.device),
        product_(library_, precision_, shape(), {CUBLASLT_EPILOGUE_DEFAULT, sm_target_}) {}

  [[nodiscard]] Cost cost() const override {
    const auto n = static_cast<double>(n_);
    const auto repeat = static_cast<double>(repeat_);
    Cost cost;
    cost.Add({n_, n_, n_}, repeat);
    const std::size_t element_bytes = 2 * SizeOf(precision_.input) + SizeOf(precision_.output);
    cost.moved_bytes = n * n * static_cast<double>(element_bytes) * repeat;
    return cost;
  }

  void Reset(Stream& stream) override {
    FillFractions(stream, a_.data(), n_ * n_, precision_.input, problem().seed_a);
    FillFractions(stream, b_.data(), n_ * n_, precision_.input, problem().seed_b);
    Poison(stream, c_.data(), c_.bytes());
  }

  void Enqueue(Stream& stream) override {
    for (long i = 0; i < repeat_; ++i)
      product_.Enqueue(stream, a_.data(), b_.data(), c_.data(), {});
  }

  Verdict Verify(Stream& stream) override {
    return VerifyGemm(machine_.device, stream, c_.data(), problem(), machine_.timeout,
                      CheckingThreads(machine_.ranks));
  }

  [[nodiscard]] std::string IneffectiveKnob() override {
    return IneffectiveSmTarget(library_, machine_.device, precision_, {shape()}, sm_target_);
  }

 private:
  Buffer Allocate(Element element) {
    return machine_.device.Allocate(n_ * n_ * SizeOf(element), MemoryKind::kDevice);
  }
  [[nodiscard]] ProductShape shape() const { return {n_, n_, n_, false, b_transposed()}; }
  [[nodiscard]] bool b_transposed() const { return precision_.input == Element::kFloat8; }
  [[nodiscard]] GemmProblem problem() const {
    GemmProblem problem;
    problem.m = problem.n = problem.k = problem.b_columns = problem.c_columns = n_;
    problem.b_transposed = b_transposed();
    problem.element_ab = precision_.input;
    problem.element_c = precision_.output;
    problem.error = product_.error();
    return problem;
  }

  Machine machine_;
  const Precision& precision_;
  long n_;
  long repeat_;
  int sm_target_;
  Buffer a_;
  Buffer b_;
  Buffer c_;
  CublasLt library_;
  CublasProduct product_;
};

std::string Excluded(const DeviceInfo& gpu, const Settings& settings) {
  if (settings.Integer("n") % 16 != 0) return "n must be a multiple of 16";
  if (std::string fault = ExcludedSmTarget(gpu, settings); !fault.empty()) return fault;
  return NoSuchPrecision(settings.Text("precision"), gpu.compute_capability);
}

Footprint FootprintOf(const Settings& settings) {
  const Precision& precision = PrecisionNamed(settings.Text("precision"));
  const std::size_t element_bytes = 2 * SizeOf(precision.input) + SizeOf(precision.output);
  const std::size_t n = settings.Integer("n");
  return {n * n * element_bytes + CublasLt::kWorkspaceBytes, 0};
}

}  // namespace

std::vector<WorkloadSpec> CublasGemm(Machine& machine) {
  WorkloadSpec spec;
  spec.name = "CublasGemm";
  spec.summary = "cuBLASLt matrix product";
  if (machine.device.backend() != Backend::kCuda) spec.missing = "exists on the cuda backend only";
  spec.axes = {
      IntegerAxis("n", "rows and columns of the matrices, a multiple of 16", 16, 1 << 16, "8192"),
      ChoiceAxis("precision", "precision of the product", {"bf16", "fp16", "tf32", "fp32", "fp8"},
                 "bf16"),
      IntegerAxis("repeat", "products back to back", 1, 10000, "1", "1"), SmTargetAxis()};
  spec.excluded = [&device = machine.device](const Settings& settings) {
    return Excluded(device.info(), settings);
  };
  spec.footprint = FootprintOf;
  spec.make = MakerOf<CublasGemmWorkload>(machine);
  return {spec};
}

}  // namespace overlapbench
