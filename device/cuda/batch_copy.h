// Batch copy: many copies by one call, cudaMemcpyBatchAsync. Its present form came with CUDA 13.0;
// built with an older toolkit it is not there.
#pragma once

#include <span>
#include <string>

#include "device/device.h"

namespace overlapbench {

// "" or why there is none.
std::string BatchCopyUnavailable();
void EnqueueBatchCopy(Stream& stream, std::span<const CopyPiece> pieces);

}  // namespace overlapbench
