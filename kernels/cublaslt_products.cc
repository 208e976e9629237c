// The products of layers by cuBLASLt: one handle and workspace for all sizes of a work.
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
  CublasLinearProduct(const CublasLt& library, Element element, const ProductSize& size)
      : product_(library, PrecisionOf(element),
                 {.m = size.m,
                  .n = size.n,
                  .k = size.k,
                  .transpose_a = size.transposed == Transposed::kA,
                  .transpose_b = size.transposed == Transposed::kW},
                 {}) {}
  void Enqueue(Stream& stream, const void* a, const void* w, const void* added,
               void* d) const override {
    product_.Enqueue(stream, a, w, d, {.added = added});
  }

 private:
  CublasProduct product_;
};

class CublasProducts : public Products {
 public:
  CublasProducts(Device& device, Element element) : library_(device), element_(element) {}
  std::unique_ptr<Product> Make(const ProductSize& size) override {
    return std::make_unique<CublasLinearProduct>(library_, element_, size);
  }

 private:
  CublasLt library_;
  Element element_;
};

}  // namespace

std::unique_ptr<Products> MakeCublasProducts(Device& device, Element element) {
  return std::make_unique<CublasProducts>(device, element);
}

}  // namespace overlapbench
