// Exchange of file descriptors between the ranks of one machine. It shares what MPI cannot carry,
// such as GPU memory (device/cuda/shared_memory.h).
//
// A descriptor's number means nothing to another process. The kernel makes a new one for the
// receiver when a message on a Unix socket carries it (unix(7), SCM_RIGHTS).
#pragma once

#include <vector>

#include "device/descriptor.h"
#include "ranks/ranks.h"

namespace overlapbench {

// Every rank's descriptor, by rank; this rank's place is empty. All ranks call it together, on one
// machine. Throws AgreedError if a rank fails or does not answer within the timeout.
std::vector<Descriptor> ExchangeDescriptors(Ranks& ranks, const Descriptor& own);

}  // namespace overlapbench
