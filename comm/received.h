// Received: what a collective on tensors leaves in its `receive`, as the senders' oracles say
// (workload/tensor.h).
#pragma once

#include <vector>

#include "comm/tensor_collective.h"

namespace overlapbench {

// Rows of the larger of the two buffers.
long RowsOf(const TensorCall& call);
inline bool IsInPlace(const TensorCall& call) { return call.send->Shares(*call.receive); }

// Gives each call's `receive` its oracle. Sends to a rank from several others may share one.
void ExpectReceived(const std::vector<TensorCall>& calls, int ranks);

}  // namespace overlapbench
