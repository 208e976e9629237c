// SmCopy: a copy by the SMs instead of a copy engine. Its kernel moves 16 bytes at a time.
//
// The device must be able to access both addresses: its own memory, a peer's, or page-locked host
// memory (CUDA C++ Programming Guide, "Mapped Memory"), never pageable memory. On the host backend,
// the cores share the copy.
#pragma once

#include "device/device.h"

namespace overlapbench {

// `bytes` must be a multiple of 4, and both addresses must be aligned to 16 bytes.
void EnqueueSmCopy(Device& device, Stream& stream, void* destination, const void* source,
                   std::size_t bytes);

}  // namespace overlapbench
