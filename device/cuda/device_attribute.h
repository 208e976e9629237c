// Attributes of the current device. Each thread queries an attribute once, since some are needed at
// every launch.
#pragma once

#include <cuda_runtime.h>

#include <map>
#include <utility>

#include "device/cuda/cuda_check.h"

namespace overlapbench {

inline int DeviceAttribute(cudaDeviceAttr attribute) {
  thread_local std::map<std::pair<int, cudaDeviceAttr>, int> known;
  int device = 0;
  CUDA_CHECK(cudaGetDevice(&device));
  const auto [place, is_new] = known.try_emplace({device, attribute}, 0);
  if (is_new) {
    const cudaError_t code = cudaDeviceGetAttribute(&place->second, attribute, device);
    if (code != cudaSuccess) known.erase(place);
    CUDA_CHECK(code);
  }
  return place->second;
}

}  // namespace overlapbench
