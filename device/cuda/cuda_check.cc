#include "device/cuda/cuda_check.h"

#include <cudaTypedefs.h>
#include <fmt/core.h>

namespace overlapbench {

void* DriverEntryPoint(const char* symbol, unsigned cuda_version) {
  void* entry_point = nullptr;
  cudaDriverEntryPointQueryResult result{};
  CUDA_CHECK(cudaGetDriverEntryPointByVersion(symbol, &entry_point, cuda_version, cudaEnableDefault,
                                              &result));
  if (result != cudaDriverEntryPointSuccess || entry_point == nullptr) {
    throw Error(fmt::format("the driver has no {}: a newer driver is needed", symbol));
  }
  return entry_point;
}

void ThrowIfDriverFailed(CUresult code, const std::string& call) {
  if (code == CUDA_SUCCESS) return;
  const auto get_name =
      reinterpret_cast<PFN_cuGetErrorName_v6000>(DriverEntryPoint("cuGetErrorName", 6000));
  const char* name = nullptr;
  get_name(code, &name);
  throw Error(fmt::format("{} failed: {}", call,
                          name != nullptr ? name : std::to_string(static_cast<int>(code))));
}

}  // namespace overlapbench
