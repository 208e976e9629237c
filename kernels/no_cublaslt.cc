// Products of a build without CUDA, which has none for GPUs.
#include "kernels/linear.h"
#include "kernels/product_group.h"

namespace overlapbench {

void LoadCublasLt() {}

std::shared_ptr<Products> MakeCublasProducts(const Machine& /*machine*/, Element /*element*/) {
  throw Error("this build has no cuBLASLt");
}

std::unique_ptr<ProductGroups> MakeCublasGroups(const Machine& /*machine*/, Stream& /*stream*/,
                                                long /*n*/, long /*k*/,
                                                const std::vector<ProductGroup>& /*groups*/) {
  throw Error("this build has no cuBLAS");
}

}  // namespace overlapbench
