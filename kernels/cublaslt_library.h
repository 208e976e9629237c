// CublasLtLibrary: NVIDIA's library of matrix products, opened at run time
// (device/dynamic_library.h).
#pragma once

#include <cublasLt.h>
#include <fmt/core.h>

#include "device/dynamic_library.h"

namespace overlapbench {

struct CublasLtLibrary : DynamicLibrary {
  CublasLtLibrary()
      : DynamicLibrary("a run on GPUs needs cuBLASLt",
                       fmt::format("libcublasLt.so.{}", CUBLAS_VER_MAJOR)) {}

  LIBRARY_FUNCTION(create, cublasLtCreate);
  LIBRARY_FUNCTION(destroy, cublasLtDestroy);
  LIBRARY_FUNCTION(get_status_name, cublasLtGetStatusName);
  LIBRARY_FUNCTION(multiply, cublasLtMatmul);
  LIBRARY_FUNCTION(get_algorithms, cublasLtMatmulAlgoGetHeuristic);
  LIBRARY_FUNCTION(get_choice, cublasLtMatmulAlgoConfigGetAttribute);
  LIBRARY_FUNCTION(create_operation, cublasLtMatmulDescCreate);
  LIBRARY_FUNCTION(destroy_operation, cublasLtMatmulDescDestroy);
  LIBRARY_FUNCTION(set_operation, cublasLtMatmulDescSetAttribute);
  LIBRARY_FUNCTION(create_layout, cublasLtMatrixLayoutCreate);
  LIBRARY_FUNCTION(destroy_layout, cublasLtMatrixLayoutDestroy);
  LIBRARY_FUNCTION(create_preference, cublasLtMatmulPreferenceCreate);
  LIBRARY_FUNCTION(destroy_preference, cublasLtMatmulPreferenceDestroy);
  LIBRARY_FUNCTION(set_preference, cublasLtMatmulPreferenceSetAttribute);
};

// Opened by the first call, which throws Error if cuBLASLt is missing or lacks one of these
// functions.
inline const CublasLtLibrary& TheCublasLt() {
  static const CublasLtLibrary library;
  return library;
}

}  // namespace overlapbench
