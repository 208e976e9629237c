#include "kernels/cublaslt.h"

#include <algorithm>
#include <array>
#include <string>

#include "device/cuda/graph_capture.h"

namespace overlapbench {
namespace {

void ThrowIfCublasFailed(cublasStatus_t code, const char* call) {
  if (code == CUBLAS_STATUS_SUCCESS) return;
  throw Error(std::string(call) + " failed: " + TheCublasLt().get_status_name(code));
}

constexpr std::array<Precision, 5> kPrecisions = {{
    {"bf16", CUDA_R_16BF, CUDA_R_16BF, CUBLAS_COMPUTE_32F, Element::kBfloat16, Element::kBfloat16,
     Adder::kTensorCores},
    {"fp16", CUDA_R_16F, CUDA_R_16F, CUBLAS_COMPUTE_32F, Element::kFloat16, Element::kFloat16,
     Adder::kTensorCores},
    {"tf32", CUDA_R_32F, CUDA_R_32F, CUBLAS_COMPUTE_32F_FAST_TF32, Element::kFloat32,
     Element::kFloat32, Adder::kTensorCores},
    {"fp32", CUDA_R_32F, CUDA_R_32F, CUBLAS_COMPUTE_32F, Element::kFloat32, Element::kFloat32,
     Adder::kFloat32},
    {"fp8", CUDA_R_8F_E4M3, CUDA_R_16BF, CUBLAS_COMPUTE_32F, Element::kFloat8, Element::kBfloat16,
     Adder::kTensorCoresOf8Bits},
}};

}  // namespace

const Precision& PrecisionNamed(std::string_view name) {
  const auto* found = std::ranges::find(kPrecisions, name, &Precision::name);
  if (found == kPrecisions.end()) throw Error("there is no precision '" + std::string(name) + "'");
  return *found;
}

std::string NoSuchPrecision(std::string_view precision, int compute_capability) {
  constexpr int kFirstWithFloat8 = 89;
  if (precision != "fp8" || compute_capability >= kFirstWithFloat8) return "";
  return "precision:fp8 needs compute capability 8.9, this GPU has " +
         std::to_string(compute_capability / 10) + "." + std::to_string(compute_capability % 10);
}

CublasLt::CublasLt(Device& device) {
  cublasLtHandle_t handle = nullptr;
  ThrowIfCublasFailed(TheCublasLt().create(&handle), "cublasLtCreate");
  handle_.reset(handle);
  workspace_ = device.Allocate(kWorkspaceBytes, MemoryKind::kDevice);
}

CublasProduct::CublasProduct(const CublasLt& library, const Precision& precision,
                             const ProductShape& shape, const Options& options)
    : library_(&library),
      precision_(precision),
      terms_(shape.k),
      epilogue_(options.epilogue),
      a_(MakeLayout(precision.input_type, shape.transpose_a ? shape.k : shape.m,
                    shape.transpose_a ? shape.m : shape.k)),
      b_(MakeLayout(precision.input_type, shape.transpose_b ? shape.n : shape.k,
                    shape.transpose_b ? shape.k : shape.n)),
      d_(MakeLayout(precision.output_type, shape.m, shape.n)) {
  cublasLtMatmulDesc_t operation = nullptr;
  ThrowIfCublasFailed(TheCublasLt().create_operation(&operation, precision.compute, CUDA_R_32F),
                      "cublasLtMatmulDescCreate");
  operation_.reset(operation);
  // cuBLASLt's first operand is B (see the header).
  Set(CUBLASLT_MATMUL_DESC_TRANSA, shape.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N);
  Set(CUBLASLT_MATMUL_DESC_TRANSB, shape.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N);
  Set(CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue_);
  if (options.sm_target > 0) Set(CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET, options.sm_target);
  if ((epilogue_ & CUBLASLT_EPILOGUE_GELU_AUX) == CUBLASLT_EPILOGUE_GELU_AUX ||
      (epilogue_ & CUBLASLT_EPILOGUE_DGELU) == CUBLASLT_EPILOGUE_DGELU) {
    Set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, static_cast<std::int64_t>(shape.n));
  }
  // The heuristic rejects an epilogue without pointers; where they point does not matter yet.
  SetFused({library.workspace().data(), library.workspace().data()});
  ChooseAlgorithm(shape, precision);
}

void CublasProduct::Enqueue(Stream& stream, const void* a, const void* b, void* d,
                            const Fused& fused) const {
  const float one = 1;
  const float beta = fused.added == nullptr ? 0 : 1;
  const void* const added = fused.added == nullptr ? d : fused.added;
  SetFused(fused);
  ThrowIfCublasFailed(
      TheCublasLt().multiply(library_->handle(), operation_.get(), &one, b, b_.get(), a, a_.get(),
                             &beta, added, d_.get(), d, d_.get(), &algorithm_.algo,
                             library_->workspace().data(), library_->workspace().bytes(),
                             static_cast<cudaStream_t>(stream.native())),
      "cublasLtMatmul");
}

RoundingError CublasProduct::error() const {
  const Element output = precision_.output;
  return ErrorOfStoredSums(ErrorOfSum(terms_, precision_.adder).Stored(output), stored_parts(),
                           output);
}

// The library may cut k into parts, and may add their sums in D's type.
long CublasProduct::stored_parts() const {
  const auto read = [&](cublasLtMatmulAlgoConfigAttributes_t attribute) -> std::uint32_t {
    std::uint32_t value = 0;
    std::size_t bytes = 0;
    ThrowIfCublasFailed(
        TheCublasLt().get_choice(&algorithm_.algo, attribute, &value, sizeof(value), &bytes),
        "cublasLtMatmulAlgoConfigGetAttribute");
    return value;
  };
  const std::uint32_t scheme = read(CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME);
  const bool stores =
      (scheme & (CUBLASLT_REDUCTION_SCHEME_INPLACE | CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE)) != 0;
  return stores ? std::max(1L, static_cast<long>(read(CUBLASLT_ALGO_CONFIG_SPLITK_NUM))) : 1;
}

CublasProduct::Layout CublasProduct::MakeLayout(cudaDataType_t type, long rows, long columns) {
  cublasLtMatrixLayout_t layout = nullptr;
  ThrowIfCublasFailed(TheCublasLt().create_layout(&layout, type, columns, rows, columns),
                      "cublasLtMatrixLayoutCreate");
  return Layout(layout);
}

template <class Value>
void CublasProduct::Set(cublasLtMatmulDescAttributes_t attribute, const Value& value) const {
  ThrowIfCublasFailed(TheCublasLt().set_operation(operation_.get(), attribute,
                                                  static_cast<const void*>(&value), sizeof(value)),
                      "cublasLtMatmulDescSetAttribute");
}

void CublasProduct::SetFused(const Fused& fused) const {
  if (epilogue_ == CUBLASLT_EPILOGUE_DEFAULT) return;
  Set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, fused.bias);
  if (epilogue_ != CUBLASLT_EPILOGUE_BIAS)
    Set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, fused.aux);
}

void CublasProduct::ChooseAlgorithm(const ProductShape& shape, const Precision& precision) {
  cublasLtMatmulPreference_t preference = nullptr;
  ThrowIfCublasFailed(TheCublasLt().create_preference(&preference),
                      "cublasLtMatmulPreferenceCreate");
  const Preference owner(preference);
  ThrowIfCublasFailed(
      TheCublasLt().set_preference(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                   &CublasLt::kWorkspaceBytes, sizeof(CublasLt::kWorkspaceBytes)),
      "cublasLtMatmulPreferenceSetAttribute");
  int found = 0;
  const cublasStatus_t status =
      TheCublasLt().get_algorithms(library_->handle(), operation_.get(), b_.get(), a_.get(),
                                   d_.get(), d_.get(), preference, 1, &algorithm_, &found);
  if (status == CUBLAS_STATUS_SUCCESS && found > 0) return;
  throw Error("cuBLASLt has no algorithm for a product of " + std::string(precision.name) + ", " +
              std::to_string(shape.m) + "x" + std::to_string(shape.n) + "x" +
              std::to_string(shape.k) + ", epilogue " + std::to_string(epilogue_) + " (" +
              TheCublasLt().get_status_name(status) + ")");
}

std::string IneffectiveSmTarget(const CublasLt& library, Device& device, const Precision& precision,
                                const std::set<ProductShape>& shapes, int sm_target) {
  if (sm_target == 0 || shapes.empty()) return "";
  const auto stream = device.CreateStream();
  // A captured launch runs nothing, so any memory will do.
  void* const memory = library.workspace().data();
  const auto grids = [&](const ProductShape& shape, int target) {
    const CublasProduct product(library, precision, shape, {CUBLASLT_EPILOGUE_DEFAULT, target});
    return CapturedGrids(*stream, [&] { product.Enqueue(*stream, memory, memory, memory, {}); });
  };
  const auto changed = [&](const ProductShape& shape) {
    return grids(shape, sm_target) != grids(shape, 0);
  };
  return std::ranges::any_of(shapes, changed)
             ? ""
             : "sm_target:" + std::to_string(sm_target) + " changed no grid";
}

}  // namespace overlapbench
