// Received: what a collective on tensors leaves in its `receive`, as the senders' oracles say
// (workload/tensor.h).
#pragma once

#include "comm/tensor_collective.h"

namespace overlapbench {

// Rows of the larger of the two buffers.
long RowsOf(const TensorCall& call);
inline bool IsInPlace(const TensorCall& call) { return call.send->Shares(*call.receive); }

// Gives `receive` its oracle. All ranks make the call.
void ExpectReceived(const TensorCall& call, int ranks);

}  // namespace overlapbench
