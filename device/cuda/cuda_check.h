// CUDA_CHECK(call): throws Error with the call, the code's name and its meaning unless it
// succeeded. CUDA then forgets the failure, which the next launch would be blamed for otherwise
// (cudaGetLastError gives the last error of any call).
#pragma once

#include <cuda_runtime.h>

#include <string>

#include "device/error.h"

namespace overlapbench {

inline void ThrowIfCudaFailed(cudaError_t code, const char* call) {
  if (code == cudaSuccess) return;
  cudaGetLastError();
  throw Error(std::string(call) + " failed: " + cudaGetErrorName(code) + ", " +
              cudaGetErrorString(code));
}

}  // namespace overlapbench

#define CUDA_CHECK(call) ::overlapbench::ThrowIfCudaFailed((call), #call)
