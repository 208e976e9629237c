#include "device/cuda/kernel_capture.h"

#include "device/cuda/captured_graph.h"
#include "device/cuda/cuda_check.h"
#include "device/cuda/driver.h"

namespace overlapbench {

std::vector<long> CapturedGrids(Stream& stream, const std::function<void()>& enqueue) {
  const CapturedGraph captured(stream, enqueue);
  std::size_t count = 0;
  CUDA_CHECK(cudaGraphGetNodes(captured.native(), nullptr, &count));
  std::vector<cudaGraphNode_t> nodes(count);
  CUDA_CHECK(cudaGraphGetNodes(captured.native(), nodes.data(), &count));

  // The driver's call: the runtime's does not know kernels that a library launched through the
  // driver.
  const auto get_params = reinterpret_cast<PFN_cuGraphKernelNodeGetParams_v12000>(
      DriverEntryPoint("cuGraphKernelNodeGetParams", 12000));
  std::vector<long> grids;
  for (const cudaGraphNode_t node : nodes) {
    cudaGraphNodeType type{};
    CUDA_CHECK(cudaGraphNodeGetType(node, &type));
    if (type != cudaGraphNodeTypeKernel) continue;
    CUDA_KERNEL_NODE_PARAMS params{};
    ThrowIfDriverFailed(get_params(node, &params), "cuGraphKernelNodeGetParams");
    grids.push_back(static_cast<long>(params.gridDimX) * params.gridDimY * params.gridDimZ);
  }
  return grids;
}

}  // namespace overlapbench
