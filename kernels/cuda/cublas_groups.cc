// Grouped products by cuBLAS (NVIDIA, cuBLAS documentation, cublasGemmGroupedBatchedEx).
//
// The library is opened when the first group is made. Its matrices are column-major, so it computes
// Dᵀ = Wᵀ·Aᵀ, which moves no data. Sizes and factors are in host memory, pointers in the device's.
#include <cublas_v2.h>
#include <fmt/core.h>

#include <algorithm>
#include <string>
#include <utility>

#include "device/dynamic_library.h"
#include "kernels/linear.h"
#include "kernels/product_group.h"

namespace overlapbench {
namespace {

struct CublasLibrary : DynamicLibrary {
  CublasLibrary()
      : DynamicLibrary("a grouped product needs cuBLAS of CUDA 12.5 or later",
                       fmt::format("libcublas.so.{}", CUBLAS_VER_MAJOR)) {}

  LIBRARY_FUNCTION(create, cublasCreate_v2);
  LIBRARY_FUNCTION(destroy, cublasDestroy_v2);
  LIBRARY_FUNCTION(set_stream, cublasSetStream_v2);
  LIBRARY_FUNCTION(set_workspace, cublasSetWorkspace_v2);
  LIBRARY_FUNCTION(get_status_name, cublasGetStatusName);
  // Not in the headers of earlier toolkits, which can build this.
  cublasStatus_t (*const multiply_groups)(
      cublasHandle_t handle, const cublasOperation_t* of_a, const cublasOperation_t* of_b,
      const int* m, const int* n, const int* k, const void* alpha, const void* const* a,
      cudaDataType_t a_type, const int* lda, const void* const* b, cudaDataType_t b_type,
      const int* ldb, const void* beta, void* const* c, cudaDataType_t c_type, const int* ldc,
      int groups, const int* sizes,
      cublasComputeType_t compute) = Need("cublasGemmGroupedBatchedEx");
};

const CublasLibrary& TheCublas() {
  static const CublasLibrary library;
  return library;
}

void ThrowIfCublasFailed(cublasStatus_t code, const char* call) {
  if (code == CUBLAS_STATUS_SUCCESS) return;
  throw Error(std::string(call) + " failed: " + TheCublas().get_status_name(code));
}

class CublasGroups : public ProductGroups {
 public:
  CublasGroups(const Machine& machine, Stream& stream, long n, long k,
               const std::vector<ProductGroup>& groups)
      : n_(static_cast<int>(n)),
        k_(static_cast<int>(k)),
        workspace_(machine.device.Allocate(kProductWorkspaceBytes, MemoryKind::kDevice)) {
    cublasHandle_t handle = nullptr;
    ThrowIfCublasFailed(TheCublas().create(&handle), "cublasCreate");
    handle_.reset(handle);
    for (const ProductGroup& group : groups) {
      Group& made = groups_.emplace_back();
      const std::size_t count = group.size();
      made.pointers.resize(3 * count);
      for (std::size_t i = 0; i < count; ++i) {
        made.rows.push_back(static_cast<int>(group[i].rows));
        made.pointers[i] = group[i].w;
        made.pointers[count + i] = group[i].a;
        made.pointers[2 * count + i] = group[i].d;
      }
      if (count == 0) continue;
      const std::size_t bytes = made.pointers.size() * sizeof(const void*);
      made.on_device = machine.device.Allocate(bytes, MemoryKind::kDevice);
      stream.Copy(made.on_device.data(), static_cast<const void*>(made.pointers.data()), bytes);
    }
  }

  void Enqueue(Stream& stream, std::size_t index) const override {
    const Group& group = groups_.at(index);
    const std::size_t count = group.rows.size();
    if (count == 0) return;
    const auto pointers = static_cast<const void* const*>(group.on_device.data());
    const std::vector<cublasOperation_t> as_is(count, CUBLAS_OP_N);
    const std::vector<int> n(count, n_);
    const std::vector<int> k(count, k_);
    const std::vector<int> one_each(count, 1);
    const std::vector<float> ones(count, 1);
    const std::vector<float> zeros(count, 0);
    // A new stream resets the workspace.
    ThrowIfCublasFailed(
        TheCublas().set_stream(handle_.get(), static_cast<cudaStream_t>(stream.native())),
        "cublasSetStream");
    ThrowIfCublasFailed(
        TheCublas().set_workspace(handle_.get(), workspace_.data(), workspace_.bytes()),
        "cublasSetWorkspace");
    ThrowIfCublasFailed(
        TheCublas().multiply_groups(
            handle_.get(), as_is.data(), as_is.data(), n.data(), group.rows.data(), k.data(),
            ones.data(), pointers, CUDA_R_16BF, n.data(), pointers + count, CUDA_R_16BF, k.data(),
            zeros.data(), const_cast<void* const*>(pointers + 2 * count), CUDA_R_16BF, n.data(),
            static_cast<int>(count), one_each.data(), CUBLAS_COMPUTE_32F),
        "cublasGemmGroupedBatchedEx");
  }
  [[nodiscard]] RoundingError error() const override {
    return ErrorOfSum(k_, Adder::kTensorCores).Stored(Element::kBfloat16);
  }

 private:
  struct Destroy {
    void operator()(cublasHandle_t handle) const { TheCublas().destroy(handle); }
  };
  struct Group {
    std::vector<int> rows;
    std::vector<const void*> pointers;  // to all W, all A and all D
    Buffer on_device;                   // the same
  };

  int n_;
  int k_;
  Buffer workspace_;
  std::unique_ptr<std::remove_pointer_t<cublasHandle_t>, Destroy> handle_;
  std::vector<Group> groups_;
};

}  // namespace

std::unique_ptr<ProductGroups> MakeCublasGroups(const Machine& machine, Stream& stream, long n,
                                                long k, const std::vector<ProductGroup>& groups) {
  return std::make_unique<CublasGroups>(machine, stream, n, k, groups);
}

}  // namespace overlapbench
