// Entry points of the CUDA driver, looked up at run time.
//
// Linking libcuda would keep the program from starting where no driver is, so the few driver calls
// that the runtime does not offer are found through cudaGetDriverEntryPointByVersion, which asks
// for a fixed ABI version.
#pragma once

#include <cuda.h>
#include <cudaTypedefs.h>

#include <string>

namespace overlapbench {

// Throws Error unless the driver has `symbol`.
void* DriverEntryPoint(const char* symbol, unsigned cuda_version);

// Throws Error naming `call` unless `code` is CUDA_SUCCESS.
void ThrowIfDriverFailed(CUresult code, const std::string& call);

}  // namespace overlapbench
