#include "device/cuda/captured_graph.h"

#include "device/cuda/cuda_check.h"

namespace overlapbench {
namespace {

class CudaGraph : public Graph {
 public:
  explicit CudaGraph(const CapturedGraph& captured) {
    CUDA_CHECK(cudaGraphInstantiate(&executable_, captured.native(), 0));
  }
  ~CudaGraph() override { cudaGraphExecDestroy(executable_); }
  CudaGraph(const CudaGraph&) = delete;
  CudaGraph& operator=(const CudaGraph&) = delete;

  void Launch(Stream& stream) override {
    CUDA_CHECK(cudaGraphLaunch(executable_, static_cast<cudaStream_t>(stream.native())));
  }

 private:
  cudaGraphExec_t executable_ = nullptr;
};

}  // namespace

CapturedGraph::CapturedGraph(Stream& stream, const std::function<void()>& enqueue) {
  const auto native = static_cast<cudaStream_t>(stream.native());
  CUDA_CHECK(cudaStreamBeginCapture(native, cudaStreamCaptureModeThreadLocal));
  try {
    enqueue();
  } catch (...) {
    // The capture must end before anything else can; what it gives is not wanted, be it an error.
    if (cudaStreamEndCapture(native, &graph_) == cudaSuccess) cudaGraphDestroy(graph_);
    cudaGetLastError();
    throw;
  }
  CUDA_CHECK(cudaStreamEndCapture(native, &graph_));
}

CapturedGraph::~CapturedGraph() { cudaGraphDestroy(graph_); }

std::unique_ptr<Graph> Instantiate(const CapturedGraph& captured) {
  return std::make_unique<CudaGraph>(captured);
}

}  // namespace overlapbench
