// Matrix products by cuBLASLt, the library that production code uses: row-major matrices, each of
// them optionally transposed, with the operations that the library can fuse into a product.
//
// cuBLASLt's matrices are column-major, and a row-major matrix is the transpose of a column-major
// one. So the library computes Dᵀ = op(B)ᵀ·op(A)ᵀ, which moves no data. What it calls a column of D
// is a row here; a bias is therefore added to every row. Source: cuBLAS documentation, "Using the
// cuBLASLt API".
#pragma once

#include <cublasLt.h>
#include <fmt/core.h>

#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <type_traits>

#include "device/device.h"
#include "device/dynamic_library.h"
#include "kernels/linear.h"
#include "workload/element.h"
#include "workload/rounding_error.h"

namespace overlapbench {

// The library, opened at run time.
struct CublasLtLibrary : DynamicLibrary {
  CublasLtLibrary()
      : DynamicLibrary("a run on GPUs needs cuBLASLt",
                       fmt::format("libcublasLt.so.{}", CUBLAS_VER_MAJOR)) {}

  LIBRARY_FUNCTION(create, cublasLtCreate);
  LIBRARY_FUNCTION(destroy, cublasLtDestroy);
  LIBRARY_FUNCTION(get_status_name, cublasLtGetStatusName);
  LIBRARY_FUNCTION(multiply, cublasLtMatmul);
  LIBRARY_FUNCTION(get_algorithms, cublasLtMatmulAlgoGetHeuristic);
  LIBRARY_FUNCTION(get_choice, cublasLtMatmulAlgoConfigGetAttribute);
  LIBRARY_FUNCTION(create_operation, cublasLtMatmulDescCreate);
  LIBRARY_FUNCTION(destroy_operation, cublasLtMatmulDescDestroy);
  LIBRARY_FUNCTION(set_operation, cublasLtMatmulDescSetAttribute);
  LIBRARY_FUNCTION(create_layout, cublasLtMatrixLayoutCreate);
  LIBRARY_FUNCTION(destroy_layout, cublasLtMatrixLayoutDestroy);
  LIBRARY_FUNCTION(create_preference, cublasLtMatmulPreferenceCreate);
  LIBRARY_FUNCTION(destroy_preference, cublasLtMatmulPreferenceDestroy);
  LIBRARY_FUNCTION(set_preference, cublasLtMatmulPreferenceSetAttribute);
};

// Opened by the first call, which throws Error if cuBLASLt is missing or lacks one of these
// functions.
inline const CublasLtLibrary& TheCublasLt() {
  static const CublasLtLibrary library;
  return library;
}

// What a product reads and writes. All products accumulate in float32.
struct Precision {
  std::string_view name;
  cudaDataType_t input_type;
  cudaDataType_t output_type;
  cublasComputeType_t compute;
  Element input;
  Element output;
  Adder adder;
};
// "bf16", "fp16", "tf32" (float32 in memory, tensor cores), "fp32", or "fp8": e4m3 in, bf16 out.
const Precision& PrecisionNamed(std::string_view name);

// Why products of `precision` cannot run on a GPU of this compute capability; "" when they can.
std::string NoSuchPrecision(std::string_view precision, int compute_capability);

// D = op(A)·op(B), where D is m×n and op(A) m×k.
struct ProductShape {
  long m = 0;
  long n = 0;
  long k = 0;
  bool transpose_a = false;
  bool transpose_b = false;
  auto operator<=>(const ProductShape&) const = default;
};

// A handle to the library on one device, and its workspace.
class CublasLt {
 public:
  static constexpr std::size_t kWorkspaceBytes = kProductWorkspaceBytes;

  explicit CublasLt(Device& device);
  [[nodiscard]] cublasLtHandle_t handle() const { return handle_.get(); }
  [[nodiscard]] const Buffer& workspace() const { return workspace_; }

 private:
  template <class Handle, auto Destroy>
  struct Deleter {
    void operator()(Handle handle) const { (TheCublasLt().*Destroy)(handle); }
  };
  template <class Handle, auto Destroy>
  using Owner = std::unique_ptr<std::remove_pointer_t<Handle>, Deleter<Handle, Destroy>>;
  friend class CublasProduct;

  Owner<cublasLtHandle_t, &CublasLtLibrary::destroy> handle_;
  Buffer workspace_;
};

// A product, with the algorithm that the library's heuristic chose for it.
class CublasProduct {
 public:
  struct Options {
    cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
    int sm_target = 0;  // how many SMs the heuristic should use; 0: all
  };
  // What an epilogue reads or writes in addition to D, in D's element type.
  struct Fused {
    void* bias = nullptr;         // n elements: forward added to every row, backward its gradient
    void* aux = nullptr;          // m×n: the input of GELU, written forward and read backward
    const void* added = nullptr;  // m×n: D = op(A)·op(B) + added
  };

  // `library` must outlive the product. Throws Error if cuBLASLt has no algorithm for it.
  CublasProduct(const CublasLt& library, const Precision& precision, const ProductShape& shape,
                const Options& options);
  void Enqueue(Stream& stream, const void* a, const void* b, void* d, const Fused& fused) const;
  // Of D, if the products of A and B are exact in float32.
  [[nodiscard]] RoundingError error() const;

 private:
  using Operation = CublasLt::Owner<cublasLtMatmulDesc_t, &CublasLtLibrary::destroy_operation>;
  using Layout = CublasLt::Owner<cublasLtMatrixLayout_t, &CublasLtLibrary::destroy_layout>;
  using Preference =
      CublasLt::Owner<cublasLtMatmulPreference_t, &CublasLtLibrary::destroy_preference>;

  static Layout MakeLayout(cudaDataType_t type, long rows, long columns);
  template <class Value>
  void Set(cublasLtMatmulDescAttributes_t attribute, const Value& value) const;
  void SetFused(const Fused& fused) const;
  void ChooseAlgorithm(const ProductShape& shape, const Precision& precision);

  // In how many parts, each stored in D's type, the terms are added.
  [[nodiscard]] long stored_parts() const;

  const CublasLt* library_;
  const Precision& precision_;
  long terms_;
  cublasLtEpilogue_t epilogue_;
  Operation operation_;
  Layout a_;
  Layout b_;
  Layout d_;
  cublasLtMatmulHeuristicResult_t algorithm_{};
};

// Why `sm_target` has no effect on products of these shapes: no grid differs from that of a product
// which may use all SMs. "" if one does, or if sm_target is 0.
std::string IneffectiveSmTarget(const CublasLt& library, Device& device, const Precision& precision,
                                const std::set<ProductShape>& shapes, int sm_target);

}  // namespace overlapbench
