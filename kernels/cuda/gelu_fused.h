// The GPU kernels of GELU in one launch: the variants FusedScalar and Fused of kernels/gelu.h.
#pragma once

#include <cuda_runtime.h>

#include "kernels/gelu.h"

namespace overlapbench {

// As LaunchGelu, on any cudaStream_t; `variant` is kFusedScalar or kFused.
void LaunchFusedGelu(cudaStream_t stream, GeluVariant variant, GeluForm form,
                     GeluDirection direction, Element element, const GeluTensors& tensors);

}  // namespace overlapbench
