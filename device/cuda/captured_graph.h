// CapturedGraph: work recorded from a stream instead of run (CUDA C++ Programming Guide, "Creating
// a Graph Using Stream Capture").
#pragma once

#include <cuda_runtime.h>

#include <functional>

#include "device/device.h"

namespace overlapbench {

class CapturedGraph {
 public:
  // Records what `enqueue` enqueues to `stream`, and to streams that wait for its events and are
  // waited for again. Throws Error where something in it cannot be recorded.
  CapturedGraph(Stream& stream, const std::function<void()>& enqueue);
  ~CapturedGraph();
  CapturedGraph(const CapturedGraph&) = delete;
  CapturedGraph& operator=(const CapturedGraph&) = delete;

  [[nodiscard]] cudaGraph_t native() const { return graph_; }

 private:
  cudaGraph_t graph_ = nullptr;
};

// Ready to be launched.
std::unique_ptr<Graph> Instantiate(const CapturedGraph& captured);

}  // namespace overlapbench
