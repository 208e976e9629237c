// The inputs and the expected results of collectives.
//
// The workloads of collectives.cc use them on every transport.
#pragma once

#include "comm/communicator.h"
#include "workload/data.h"

namespace overlapbench {

// "AllReduce": what the operation's workload is called. Not of point-to-point operations.
const char* NameOf(Operation operation);

// The input of any operation but sends and receives.
CollectiveInput InputOf(Operation operation, int ranks);

// The expected contents of `rank`'s receive buffer, or of its segment if the operation produces
// one. `count`: elements of the larger buffer, as in CollectiveCall.
ExpectedSegments ExpectedOf(Operation operation, int ranks, int rank, long count);

}  // namespace overlapbench
