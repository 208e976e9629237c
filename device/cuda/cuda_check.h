// Error checks for calls into CUDA.
//
// CUDA_CHECK(call) throws Error with the call, the code's name and its meaning unless the call
// succeeded. It also clears CUDA's last error: cudaGetLastError returns the last error of any call,
// so the next launch would be blamed for this one.
//
// The few driver calls that the runtime does not offer are looked up at run time. A program that
// links libcuda does not start on a machine without a driver.
//
//   const auto wait_value = reinterpret_cast<PFN_cuStreamWaitValue32_v11070>(
//       DriverEntryPoint("cuStreamWaitValue32", 11070));
//   ThrowIfDriverFailed(wait_value(...), "cuStreamWaitValue32");
#pragma once

#include <cuda.h>
#include <cuda_runtime.h>

#include <string>

#include "device/error.h"

namespace overlapbench {

// Inline, because the kernels' library is linked without this folder's sources.
inline void ThrowIfCudaFailed(cudaError_t code, const char* call) {
  if (code == cudaSuccess) return;
  cudaGetLastError();
  throw Error(std::string(call) + " failed: " + cudaGetErrorName(code) + ", " +
              cudaGetErrorString(code));
}

// The driver's `symbol` in the ABI of `cuda_version` (11070 is 11.7; <cudaTypedefs.h> has the types
// under the same number). Throws Error if the driver does not have it.
void* DriverEntryPoint(const char* symbol, unsigned cuda_version);

// Throws Error naming `call` unless `code` is CUDA_SUCCESS.
void ThrowIfDriverFailed(CUresult code, const std::string& call);

}  // namespace overlapbench

#define CUDA_CHECK(call) ::overlapbench::ThrowIfCudaFailed((call), #call)
