// The products of layers by cuBLASLt: one handle and workspace for all sizes of a work.
#include <set>
#include <string>

#include "kernels/cublaslt.h"
#include "kernels/linear.h"

namespace overlapbench {
namespace {

const Precision& PrecisionOf(Element element) {
  if (element == Element::kBfloat16) return PrecisionNamed("bf16");
  return PrecisionNamed(element == Element::kFloat16 ? "fp16" : "fp32");
}

ProductShape ShapeOf(const ProductSize& size) {
  return {.m = size.m,
          .n = size.n,
          .k = size.k,
          .transpose_a = size.transposed == Transposed::kA,
          .transpose_b = size.transposed == Transposed::kW};
}

class CublasLinearProduct : public Product {
 public:
  CublasLinearProduct(const CublasLt& library, Element element, const ProductSize& size,
                      int sm_target)
      : product_(library, PrecisionOf(element), ShapeOf(size),
                 {CUBLASLT_EPILOGUE_DEFAULT, sm_target}) {}
  void Enqueue(Stream& stream, const void* a, const void* w, const void* added,
               void* d) const override {
    product_.Enqueue(stream, a, w, d, {.added = added});
  }
  [[nodiscard]] RoundingError error() const { return product_.error(); }

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
    made_.insert(ShapeOf(size));
    auto product = std::make_unique<CublasLinearProduct>(library_, element_, size, sm_target_);
    error_ = WorseOf(error_, product->error());
    return product;
  }
  [[nodiscard]] RoundingError error() const override { return error_; }
  [[nodiscard]] std::string IneffectiveKnob() const override {
    return IneffectiveSmTarget(library_, device_, PrecisionOf(element_), made_, sm_target_);
  }

 private:
  Device& device_;
  int sm_target_;
  CublasLt library_;
  Element element_;
  RoundingError error_;
  std::set<ProductShape> made_;
};

}  // namespace

void LoadCublasLt() { TheCublasLt(); }

std::shared_ptr<Products> MakeCublasProducts(const Machine& machine, Element element) {
  return std::make_shared<CublasProducts>(machine, element);
}

}  // namespace overlapbench
