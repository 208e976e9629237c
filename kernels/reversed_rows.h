// ReversedRows: copies a tensor's rows to another tensor, the last row first, by one kernel.
//
// A step's gradients lie in the order of its layers and are made in the opposite one. So coalescing
// many small tensors, and taking them apart again, moves every row to another place. Rows are
// multiples of 16 bytes.
#pragma once

#include <cstdint>
#include <memory>

#include "workload/tensor.h"

namespace overlapbench {

// Both tensors have one shape. `seed`: for `from`, if no other work makes it.
std::unique_ptr<Workload> MakeReversedRows(const Machine& machine, const SharedTensor& from,
                                           const SharedTensor& to, std::uint32_t seed);

}  // namespace overlapbench
