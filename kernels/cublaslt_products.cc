// The products of layers by cuBLASLt: one handle and workspace for all sizes of a work.
#include <fmt/core.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "device/cuda/graph_capture.h"
#include "kernels/cublaslt.h"
#include "kernels/linear.h"

namespace overlapbench {
namespace {

const Precision& PrecisionOf(Element element) {
  if (element == Element::kBfloat16) return PrecisionNamed("bf16");
  return PrecisionNamed(element == Element::kFloat16 ? "fp16" : "fp32");
}

class CublasLinearProduct : public Product {
 public:
  CublasLinearProduct(const CublasLt& library, Element element, const ProductSize& size,
                      int sm_target)
      : product_(library, PrecisionOf(element),
                 {.m = size.m,
                  .n = size.n,
                  .k = size.k,
                  .transpose_a = size.transposed == Transposed::kA,
                  .transpose_b = size.transposed == Transposed::kW},
                 {CUBLASLT_EPILOGUE_DEFAULT, sm_target}) {}
  void Enqueue(Stream& stream, const void* a, const void* w, const void* added,
               void* d) const override {
    product_.Enqueue(stream, a, w, d, {.added = added});
  }

 private:
  CublasProduct product_;
};

class CublasProducts : public Products {
 public:
  CublasProducts(const Machine& machine, Element element)
      : device_(machine.device),
        sm_target_(machine.sm_target),
        library_(machine.device),
        element_(element) {}
  std::unique_ptr<Product> Make(const ProductSize& size) override {
    made_.insert(size);
    return std::make_unique<CublasLinearProduct>(library_, element_, size, sm_target_);
  }
  [[nodiscard]] std::string IneffectiveKnob() const override {
    if (sm_target_ == 0 || made_.empty()) return "";
    const auto stream = device_.CreateStream();
    const auto changed = [&](const ProductSize& size) {
      return GridsOf(size, sm_target_, *stream) != GridsOf(size, 0, *stream);
    };
    return std::ranges::any_of(made_, changed)
               ? ""
               : fmt::format("sm_target:{} changed no grid", sm_target_);
  }

 private:
  // A captured launch runs nothing, so that any memory will do.
  [[nodiscard]] std::vector<long> GridsOf(const ProductSize& size, int sm_target,
                                          Stream& stream) const {
    const CublasLinearProduct product(library_, element_, size, sm_target);
    void* const memory = library_.workspace().data();
    return CapturedGrids(stream, [&] { product.Enqueue(stream, memory, memory, nullptr, memory); });
  }

  Device& device_;
  int sm_target_;
  CublasLt library_;
  Element element_;
  std::set<ProductSize> made_;
};

}  // namespace

std::unique_ptr<Products> MakeCublasProducts(const Machine& machine, Element element) {
  return std::make_unique<CublasProducts>(machine, element);
}

}  // namespace overlapbench
