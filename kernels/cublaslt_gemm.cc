// CublasGemm: cuBLASLt's matrix product C = A·B on n×n matrices, the kernel that production code
// runs.
//
// Precisions: bf16 and fp16 (inputs and output), tf32 (float32 storage, tensor cores), fp32, and
// fp8 (inputs e4m3, output bf16; without fast accumulation, which is the library's default), for
// which B is stored transposed: Hopper's tensor cores read 8-bit operands along k only. Products
// are accumulated in float32. `repeat` products run back to back. `sm_target` is
// CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET: a hint to the library's heuristic to leave the other SMs
// free, which may also choose another kernel; whether it changed any grid is checked by capturing
// the launch. Cost: 2·n³ operations a product.
//
// TinyGemm: the same with n = 64, which costs hardly more than to launch it.

#include <algorithm>
#include <array>

#include "device/cuda/kernel_capture.h"
#include "kernels/cublaslt.h"
#include "kernels/gemm_oracle.h"
#include "workload/registry.h"

namespace overlapbench {
namespace {

constexpr long kTinySize = 64;

struct Tolerance {
  std::string_view precision;
  // Relative to the root mean square of C: half a unit in the last place of the output's format at
  // the largest of the sampled elements (about 4 times the mean), or the accumulation's error in
  // float32.
  double value;
};
// fp8: products of four significant bits each are exact in float32, and the oracle knows what e4m3
// left of the inputs. Hopper's tensor cores add 8-bit products with 14 bits before the sum is moved
// to float32 (DeepSeek-AI, "DeepSeek-V3 Technical Report", 2024, 3.3.2): a few units of 2^-13 of a
// partial sum of 128 products, which is below 1e-3 of C. So the output's bf16 decides.
constexpr std::array<Tolerance, 5> kTolerances = {
    {{"bf16", 2e-2}, {"fp16", 3e-3}, {"tf32", 1e-3}, {"fp32", 1e-4}, {"fp8", 2e-2}}};

class CublasGemmWorkload : public Workload {
 public:
  CublasGemmWorkload(const Machine& machine, const Settings& settings, long n, int sm_target)
      : machine_(machine),
        precision_(PrecisionNamed(settings.Text("precision"))),
        n_(n),
        repeat_(settings.Integer("repeat")),
        sm_target_(sm_target),
        a_(Allocate(precision_.input)),
        b_(Allocate(precision_.input)),
        c_(Allocate(precision_.output)),
        library_(machine.device),
        product_(MakeProduct(sm_target)) {}

  [[nodiscard]] Cost cost() const override {
    const auto n = static_cast<double>(n_);
    const auto repeat = static_cast<double>(repeat_);
    Cost cost;
    cost.flops = 2 * n * n * n * repeat;
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
    for (long i = 0; i < repeat_; ++i) Enqueue(product_, stream);
  }

  Verdict Verify(Stream& stream) override {
    return VerifyGemm(stream, c_.data(), problem(), machine_.ranks.timeout());
  }

  [[nodiscard]] std::string IneffectiveKnob() override {
    if (sm_target_ == 0) return "";
    const auto stream = machine_.device.CreateStream();
    const CublasProduct unlimited = MakeProduct(0);
    const auto limited_grids = CapturedGrids(*stream, [&] { Enqueue(product_, *stream); });
    const auto free_grids = CapturedGrids(*stream, [&] { Enqueue(unlimited, *stream); });
    if (limited_grids != free_grids) return "";
    return "sm_target:" + std::to_string(sm_target_) + " changed no grid";
  }

 private:
  Buffer Allocate(Element element) {
    return machine_.device.Allocate(n_ * n_ * SizeOf(element), MemoryKind::kDevice);
  }
  [[nodiscard]] CublasProduct MakeProduct(int sm_target) const {
    return {library_,
            precision_,
            {n_, n_, n_, false, b_transposed()},
            {CUBLASLT_EPILOGUE_DEFAULT, sm_target}};
  }
  void Enqueue(const CublasProduct& product, Stream& stream) {
    product.Enqueue(stream, a_.data(), b_.data(), c_.data(), {});
  }
  [[nodiscard]] bool b_transposed() const { return precision_.input == Element::kFloat8; }
  [[nodiscard]] GemmProblem problem() const {
    GemmProblem problem;
    problem.m = problem.n = problem.k = problem.b_columns = problem.c_columns = n_;
    problem.b_transposed = b_transposed();
    problem.element_ab = precision_.input;
    problem.element_c = precision_.output;
    problem.tolerance =
        std::ranges::find(kTolerances, precision_.name, &Tolerance::precision)->value;
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

Footprint FootprintOf(std::size_t n, const Precision& precision) {
  const std::size_t element_bytes = 2 * SizeOf(precision.input) + SizeOf(precision.output);
  return {n * n * element_bytes + CublasLt::kWorkspaceBytes, 0};
}

}  // namespace

std::vector<WorkloadSpec> CublasGemm(Machine& machine) {
  WorkloadSpec gemm;
  gemm.name = "CublasGemm";
  gemm.side = Side::kCompute;
  gemm.summary = "cuBLASLt matrix product";
  if (machine.device.backend() != Backend::kCuda) gemm.missing = "exists on the cuda backend only";
  const Axis precision = ChoiceAxis("precision", "precision of the product",
                                    {"bf16", "fp16", "tf32", "fp32", "fp8"}, "bf16");
  const Axis repeat = IntegerAxis("repeat", "products back to back", 1, 10000, "1", "1");
  gemm.axes = {
      IntegerAxis("n", "rows and columns of the matrices, a multiple of 16", 16, 1 << 16, "8192"),
      precision, repeat,
      IntegerAxis("sm_target", "SMs that cuBLASLt should use; 0: all", 0, 1024, "0", "0")};
  gemm.excluded = [&device = machine.device](const Settings& settings) -> std::string {
    if (settings.Integer("n") % 16 != 0) return "n must be a multiple of 16";
    return NoSuchPrecision(settings.Text("precision"), device.info().compute_capability);
  };
  gemm.footprint = [](const Settings& settings) {
    return FootprintOf(settings.Integer("n"), PrecisionNamed(settings.Text("precision")));
  };
  gemm.make = [machine](const Settings& settings) {
    return std::make_unique<CublasGemmWorkload>(machine, settings, settings.Integer("n"),
                                                static_cast<int>(settings.Integer("sm_target")));
  };

  WorkloadSpec tiny = gemm;
  tiny.name = "TinyGemm";
  tiny.summary = "cuBLASLt matrix product of 64 rows and columns: hardly more than a launch";
  tiny.baseline = false;
  tiny.axes = {precision, repeat};
  tiny.excluded = [&device = machine.device](const Settings& settings) {
    return NoSuchPrecision(settings.Text("precision"), device.info().compute_capability);
  };
  tiny.footprint = [](const Settings& settings) {
    return FootprintOf(kTinySize, PrecisionNamed(settings.Text("precision")));
  };
  tiny.make = [machine](const Settings& settings) {
    return std::make_unique<CublasGemmWorkload>(machine, settings, kTinySize, 0);
  };
  return {gemm, tiny};
}

}  // namespace overlapbench
