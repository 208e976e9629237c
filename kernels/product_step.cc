#include "kernels/product_step.h"

#include <map>

namespace overlapbench {
namespace {

double SumOfProducts(const std::vector<float>& left, const std::vector<float>& right) {
  double sum = 0;
  for (std::size_t i = 0; i < left.size(); ++i) sum += static_cast<double>(left[i]) * right[i];
  return sum;
}

}  // namespace

TensorStep ProductStep(const Machine& machine, const SharedTensor& a, const SharedTensor& w,
                       const SharedTensor& d, Transposed transposed, std::uint32_t seed) {
  TensorStep step = StepOn({a, w}, d, seed);
  const TensorShape& left = a->shape();
  const ProductSize size{d->shape().rows, d->shape().columns,
                         transposed == Transposed::kA ? left.rows : left.columns, transposed};
  step.cost.flops =
      2.0 * static_cast<double>(size.m) * static_cast<double>(size.n) * static_cast<double>(size.k);
  const std::shared_ptr<Products> products = MakeProducts(machine.device);
  step.enqueue = [a, w, d, size, products, of_rows = std::map<long, std::shared_ptr<Product>>()](
                     Stream& stream, long first, long rows) mutable {
    if (size.transposed == Transposed::kA && rows != size.m)
      throw Error("a product with its first matrix transposed is not cut into parts");
    std::shared_ptr<Product>& product = of_rows[rows];
    if (product == nullptr) product = products->Make({rows, size.n, size.k, size.transposed});
    product->Enqueue(stream, a->Row(first), w->Row(0), nullptr, d->Row(first));
  };
  step.expected = [a, w, transposed](HeldRows& held, long row, long column) {
    return SumOfProducts(
        transposed == Transposed::kA ? held.Column(a, row) : held.Row(a, row),
        transposed == Transposed::kW ? held.Row(w, column) : held.Column(w, column));
  };
  return step;
}

}  // namespace overlapbench
