#include "device/cuda/graph_capture.h"

#include <cudaTypedefs.h>

#include "device/cuda/cuda_check.h"
#include "device/cuda/cuda_stream.h"

namespace overlapbench {
namespace {

class CapturedGraph {
 public:
  CapturedGraph(Stream& stream, const std::function<void()>& enqueue) {
    const cudaStream_t native = NativeStream(stream);
    CUDA_CHECK(cudaStreamBeginCapture(native, cudaStreamCaptureModeThreadLocal));
    try {
      enqueue();
    } catch (...) {
      // The capture must end before anything else can run; its result is discarded, even if it is
      // an error.
      if (cudaStreamEndCapture(native, &graph_) == cudaSuccess) cudaGraphDestroy(graph_);
      cudaGetLastError();
      throw;
    }
    CUDA_CHECK(cudaStreamEndCapture(native, &graph_));
  }
  ~CapturedGraph() { cudaGraphDestroy(graph_); }
  CapturedGraph(const CapturedGraph&) = delete;
  CapturedGraph& operator=(const CapturedGraph&) = delete;

  [[nodiscard]] cudaGraph_t native() const { return graph_; }

 private:
  cudaGraph_t graph_ = nullptr;
};

class CudaGraph : public Graph {
 public:
  explicit CudaGraph(const CapturedGraph& captured) {
    CUDA_CHECK(cudaGraphInstantiate(&executable_, captured.native(), 0));
  }
  ~CudaGraph() override { cudaGraphExecDestroy(executable_); }
  CudaGraph(const CudaGraph&) = delete;
  CudaGraph& operator=(const CudaGraph&) = delete;

  void Launch(Stream& stream) override {
    CUDA_CHECK(cudaGraphLaunch(executable_, NativeStream(stream)));
  }

 private:
  cudaGraphExec_t executable_ = nullptr;
};

// A node has a context's function, or a kernel of a library that is loaded into all contexts.
// Drivers before 12.3 cannot report its name.
std::string NameOf(const CUDA_KERNEL_NODE_PARAMS& params) {
  constexpr unsigned kSinceCuda = 12030;
  const char* name = nullptr;
  try {
    if (params.func != nullptr) {
      const auto get_name =
          reinterpret_cast<PFN_cuFuncGetName_v12030>(DriverEntryPoint("cuFuncGetName", kSinceCuda));
      get_name(&name, params.func);
    } else if (params.kern != nullptr) {
      const auto get_name = reinterpret_cast<PFN_cuKernelGetName_v12030>(
          DriverEntryPoint("cuKernelGetName", kSinceCuda));
      get_name(&name, params.kern);
    }
  } catch (const Error&) {
    return "";
  }
  return name == nullptr ? "" : name;
}

}  // namespace

std::unique_ptr<Graph> RecordGraph(Stream& stream, const std::function<void()>& enqueue) {
  return std::make_unique<CudaGraph>(CapturedGraph(stream, enqueue));
}

std::vector<CapturedKernel> CapturedKernels(Stream& stream, const std::function<void()>& enqueue) {
  const CapturedGraph captured(stream, enqueue);
  std::size_t count = 0;
  CUDA_CHECK(cudaGraphGetNodes(captured.native(), nullptr, &count));
  std::vector<cudaGraphNode_t> nodes(count);
  CUDA_CHECK(cudaGraphGetNodes(captured.native(), nodes.data(), &count));

  // Driver calls, because the runtime's support neither kernels that a library launched through the
  // driver nor waits and writes of a stream (cuStreamWaitValue32).
  const auto get_type = reinterpret_cast<PFN_cuGraphNodeGetType_v10000>(
      DriverEntryPoint("cuGraphNodeGetType", 10000));
  const auto get_params = reinterpret_cast<PFN_cuGraphKernelNodeGetParams_v12000>(
      DriverEntryPoint("cuGraphKernelNodeGetParams", 12000));
  std::vector<CapturedKernel> kernels;
  for (const cudaGraphNode_t node : nodes) {
    CUgraphNodeType type{};
    ThrowIfDriverFailed(get_type(node, &type), "cuGraphNodeGetType");
    if (type != CU_GRAPH_NODE_TYPE_KERNEL) continue;
    CUDA_KERNEL_NODE_PARAMS params{};
    ThrowIfDriverFailed(get_params(node, &params), "cuGraphKernelNodeGetParams");
    kernels.push_back(
        {NameOf(params), static_cast<long>(params.gridDimX) * params.gridDimY * params.gridDimZ});
  }
  return kernels;
}

std::vector<long> CapturedGrids(Stream& stream, const std::function<void()>& enqueue) {
  std::vector<long> grids;
  for (const CapturedKernel& kernel : CapturedKernels(stream, enqueue))
    grids.push_back(kernel.blocks);
  return grids;
}

}  // namespace overlapbench
