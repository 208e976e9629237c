// What the current device has.
#pragma once

#include <cuda_runtime.h>

#include "device/cuda/cuda_check.h"

namespace overlapbench {

inline int DeviceAttribute(cudaDeviceAttr attribute) {
  int device = 0;
  int value = 0;
  CUDA_CHECK(cudaGetDevice(&device));
  CUDA_CHECK(cudaDeviceGetAttribute(&value, attribute, device));
  return value;
}

}  // namespace overlapbench
