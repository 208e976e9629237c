// Stands in for device/cuda/ in a build without CUDA.

#include "device/device.h"
#include "device/trace.h"

namespace overlapbench {

int VisibleGpus() { return 0; }

std::string CudaUnavailable() {
  return "this build has no CUDA (no nvcc was found when it was made)";
}

std::unique_ptr<Device> OpenCudaDevice(int /*ordinal*/) { throw UsageError(CudaUnavailable()); }

TraceRange::TraceRange(const std::string& /*name*/) {}
TraceRange::~TraceRange() = default;

}  // namespace overlapbench
