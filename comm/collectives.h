// What the ranks put into a collective's buffers, and what each must find in its own afterwards.
//
// The workloads of collectives.cc are filled and verified by these, whichever transport they have.
#pragma once

#include "comm/communicator.h"
#include "workload/data.h"

namespace overlapbench {

// Of all operations but sends and receives.
CollectiveInput InputOf(Operation operation, int ranks);

// Of `rank`'s receive buffer, or of its segment where the operation gives it one. `count`: elements
// of the larger buffer, as in CollectiveCall.
ExpectedSegments ExpectedOf(Operation operation, int ranks, int rank, long count);

}  // namespace overlapbench
