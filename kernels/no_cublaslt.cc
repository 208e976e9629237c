// Products of a build without CUDA, which has none for GPUs.
#include "kernels/linear.h"

namespace overlapbench {

void LoadCublasLt() {}

std::shared_ptr<Products> MakeCublasProducts(const Machine& /*machine*/, Element /*element*/) {
  throw Error("this build has no cuBLASLt");
}

}  // namespace overlapbench
