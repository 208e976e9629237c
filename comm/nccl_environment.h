// NcclOverride: variables of the environment that decide for NCCL what a row's name decides here.
//
// NCCL prefers them to ncclConfig_t (NCCL User Guide, "Environment Variables"), so a row would be
// measured with another number of CTAs, or by another engine, than its name says. NCCL puts what
// its configuration files say into the environment as well: ask once it has been started.
#pragma once

#include <string>

namespace overlapbench {

// "" or which variable is set, to what, and what to do instead. NCCL ignores an empty one.
std::string NcclOverride();

}  // namespace overlapbench
