// CublasGemm: cuBLASLt's matrix product C = A·B on n×n matrices, the kernel that production code
// runs.
//
// Precisions: bf16 and fp16 (inputs and output), tf32 (float32 storage, tensor cores), fp32.
// Products are accumulated in float32. `repeat` products run back to back. `sm_target` is
// CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET: a hint to the library's heuristic to leave the other SMs
// free, which may also choose another kernel; whether it changed any grid is checked by capturing
// the launch. Cost: 2·n³ operations a product. Matrices are row-major; cuBLASLt's are column-major,
// so that it is given Cᵀ = Bᵀ·Aᵀ, which needs no transposition. Source: cuBLAS documentation,
// "Using the cuBLASLt API".

#include <cublasLt.h>

#include <array>

#include "device/cuda/kernel_capture.h"
#include "kernels/gemm_oracle.h"
#include "workload/registry.h"

namespace overlapbench {
namespace {

// What NVIDIA recommends for Hopper (cuBLAS documentation, cublasSetWorkspace).
constexpr std::size_t kWorkspaceBytes = 32UL << 20;

void ThrowIfCublasFailed(cublasStatus_t code, const char* call) {
  if (code == CUBLAS_STATUS_SUCCESS) return;
  throw Error(std::string(call) + " failed: " + cublasLtGetStatusName(code));
}
#define CUBLAS_CHECK(call) ThrowIfCublasFailed((call), #call)

struct Precision {
  std::string_view name;
  cudaDataType_t data;
  cublasComputeType_t compute;
  Element element;
  // Relative to the root mean square of C: half a unit in the last place of the output's format at
  // the largest of the sampled elements (about 4 times the mean), or the accumulation's error in
  // float32.
  double tolerance;
};
constexpr std::array<Precision, 4> kPrecisions = {{
    {"bf16", CUDA_R_16BF, CUBLAS_COMPUTE_32F, Element::kBfloat16, 2e-2},
    {"fp16", CUDA_R_16F, CUBLAS_COMPUTE_32F, Element::kFloat16, 3e-3},
    {"tf32", CUDA_R_32F, CUBLAS_COMPUTE_32F_FAST_TF32, Element::kFloat32, 1e-3},
    {"fp32", CUDA_R_32F, CUBLAS_COMPUTE_32F, Element::kFloat32, 1e-4},
}};

const Precision& PrecisionNamed(std::string_view name) {
  for (const auto& precision : kPrecisions) {
    if (precision.name == name) return precision;
  }
  throw Error("no precision is called '" + std::string(name) + "'");
}

template <class Handle, auto Destroy>
struct Deleter {
  void operator()(Handle handle) const { Destroy(handle); }
};
template <class Handle, auto Destroy>
using Owner = std::unique_ptr<std::remove_pointer_t<Handle>, Deleter<Handle, Destroy>>;
using Library = Owner<cublasLtHandle_t, cublasLtDestroy>;
using Layout = Owner<cublasLtMatrixLayout_t, cublasLtMatrixLayoutDestroy>;
using Operation = Owner<cublasLtMatmulDesc_t, cublasLtMatmulDescDestroy>;
using Preference = Owner<cublasLtMatmulPreference_t, cublasLtMatmulPreferenceDestroy>;

// One product, with the algorithm that the heuristic chose for a number of SMs (0: all).
class Plan {
 public:
  Plan(cublasLtHandle_t library, const Precision& precision, long n, int sm_target) {
    cublasLtMatmulDesc_t operation = nullptr;
    CUBLAS_CHECK(cublasLtMatmulDescCreate(&operation, precision.compute, CUDA_R_32F));
    operation_.reset(operation);
    if (sm_target > 0) {
      CUBLAS_CHECK(cublasLtMatmulDescSetAttribute(operation, CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET,
                                                  &sm_target, sizeof(sm_target)));
    }
    cublasLtMatrixLayout_t layout = nullptr;
    CUBLAS_CHECK(cublasLtMatrixLayoutCreate(&layout, precision.data, n, n, n));
    layout_.reset(layout);
    ChooseAlgorithm(library, n);
  }

  void Run(cublasLtHandle_t library, const void* a, const void* b, void* c, const Buffer& workspace,
           Stream& stream) const {
    const float one = 1;
    const float zero = 0;
    CUBLAS_CHECK(cublasLtMatmul(library, operation_.get(), &one, b, layout_.get(), a, layout_.get(),
                                &zero, c, layout_.get(), c, layout_.get(), &algorithm_.algo,
                                workspace.data(), workspace.bytes(),
                                static_cast<cudaStream_t>(stream.native())));
  }

 private:
  void ChooseAlgorithm(cublasLtHandle_t library, long n) {
    cublasLtMatmulPreference_t preference = nullptr;
    CUBLAS_CHECK(cublasLtMatmulPreferenceCreate(&preference));
    const Preference owner(preference);
    CUBLAS_CHECK(cublasLtMatmulPreferenceSetAttribute(preference,
                                                      CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                                      &kWorkspaceBytes, sizeof(kWorkspaceBytes)));
    int found = 0;
    CUBLAS_CHECK(cublasLtMatmulAlgoGetHeuristic(library, operation_.get(), layout_.get(),
                                                layout_.get(), layout_.get(), layout_.get(),
                                                preference, 1, &algorithm_, &found));
    if (found == 0) throw Error("cuBLASLt has no algorithm for n = " + std::to_string(n));
  }

  Operation operation_;
  Layout layout_;
  cublasLtMatmulHeuristicResult_t algorithm_{};
};

Library MakeLibrary() {
  cublasLtHandle_t library = nullptr;
  CUBLAS_CHECK(cublasLtCreate(&library));
  return Library(library);
}

class CublasGemmWorkload : public Workload {
 public:
  CublasGemmWorkload(const Machine& machine, const Settings& settings)
      : machine_(machine),
        precision_(PrecisionNamed(settings.Text("precision"))),
        n_(settings.Integer("n")),
        repeat_(settings.Integer("repeat")),
        sm_target_(static_cast<int>(settings.Integer("sm_target"))),
        library_(MakeLibrary()),
        plan_(library_.get(), precision_, n_, sm_target_),
        a_(AllocateMatrix()),
        b_(AllocateMatrix()),
        c_(AllocateMatrix()),
        workspace_(machine.device.Allocate(kWorkspaceBytes, MemoryKind::kDevice)) {}

  [[nodiscard]] Cost cost() const override {
    const auto n = static_cast<double>(n_);
    const auto repeat = static_cast<double>(repeat_);
    Cost cost;
    cost.flops = 2 * n * n * n * repeat;
    cost.moved_bytes = 3 * n * n * static_cast<double>(SizeOf(precision_.element)) * repeat;
    return cost;
  }

  void Reset(Stream& stream) override {
    FillFractions(stream, a_.data(), n_ * n_, precision_.element, problem().seed_a);
    FillFractions(stream, b_.data(), n_ * n_, precision_.element, problem().seed_b);
    Poison(stream, c_.data(), c_.bytes());
  }

  void Enqueue(Stream& stream) override {
    for (long i = 0; i < repeat_; ++i) RunOnce(plan_, stream);
  }

  Verdict Verify(Stream& stream) override {
    return VerifyGemm(stream, c_.data(), problem(), machine_.ranks.timeout());
  }

  [[nodiscard]] std::string IneffectiveKnob() override {
    if (sm_target_ == 0) return "";
    const auto stream = machine_.device.CreateStream();
    const Plan unlimited(library_.get(), precision_, n_, 0);
    const auto limited_grids = CapturedGrids(*stream, [&] { RunOnce(plan_, *stream); });
    const auto free_grids = CapturedGrids(*stream, [&] { RunOnce(unlimited, *stream); });
    if (limited_grids != free_grids) return "";
    return "sm_target:" + std::to_string(sm_target_) + " changed no grid";
  }

 private:
  Buffer AllocateMatrix() {
    return machine_.device.Allocate(n_ * n_ * SizeOf(precision_.element), MemoryKind::kDevice);
  }
  void RunOnce(const Plan& plan, Stream& stream) {
    plan.Run(library_.get(), a_.data(), b_.data(), c_.data(), workspace_, stream);
  }
  [[nodiscard]] GemmProblem problem() const {
    GemmProblem problem;
    problem.m = problem.n = problem.k = problem.b_columns = problem.c_columns = n_;
    problem.element_c = precision_.element;
    problem.tolerance = precision_.tolerance;
    return problem;
  }

  Machine machine_;
  const Precision& precision_;
  long n_;
  long repeat_;
  int sm_target_;
  Library library_;
  Plan plan_;
  Buffer a_;
  Buffer b_;
  Buffer c_;
  Buffer workspace_;
};

}  // namespace

std::vector<WorkloadSpec> CublasGemm(Machine& machine) {
  WorkloadSpec spec;
  spec.name = "CublasGemm";
  spec.side = Side::kCompute;
  spec.summary = "cuBLASLt matrix product";
  if (machine.device.backend() != Backend::kCuda) spec.missing = "exists on the cuda backend only";
  spec.axes = {
      IntegerAxis("n", "rows and columns of the matrices, a multiple of 16", 16, 1 << 16, "8192"),
      ChoiceAxis("precision", "precision of the product", {"bf16", "fp16", "tf32", "fp32"}, "bf16"),
      IntegerAxis("repeat", "products back to back", 1, 10000, "1", "1"),
      IntegerAxis("sm_target", "SMs that cuBLASLt should use; 0: all", 0, 1024, "0", "0")};
  spec.excluded = [](const Settings& settings) {
    return settings.Integer("n") % 16 == 0 ? "" : "n must be a multiple of 16";
  };
  spec.footprint = [](const Settings& settings) {
    const std::size_t n = settings.Integer("n");
    const std::size_t element_bytes = SizeOf(PrecisionNamed(settings.Text("precision")).element);
    return Footprint{3 * n * n * element_bytes + kWorkspaceBytes, 0};
  };
  spec.make = [machine](const Settings& settings) {
    return std::make_unique<CublasGemmWorkload>(machine, settings);
  };
  return {spec};
}

}  // namespace overlapbench
