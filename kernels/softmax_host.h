// The softmax on the host backend, for softmax.cc alone. Blocks take rows in turn; one and the same
// row function per variant, in float32 as on the GPU, with sums in double precision since a thread
// adds a whole row.
#pragma once

#include "device/host/host_stream.h"
#include "kernels/softmax.h"

namespace overlapbench {

void EnqueueSoftmax(HostStream& stream, SoftmaxVariant variant, const SoftmaxProblem& problem);

}  // namespace overlapbench
