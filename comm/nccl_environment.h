// NcclOverride: environment variables that override settings in a row's name.
//
// For NCCL they take precedence over ncclConfig_t (NCCL User Guide, "Environment Variables"), so a
// row would be measured with another number of CTAs, or by another engine, than its name says. NCCL
// also copies its configuration files into the environment, so call this after NCCL has started.
#pragma once

#include <string>

namespace overlapbench {

// Which variable is set, its value, and what to do instead; "" if none is. NCCL ignores an empty
// one.
std::string NcclOverride();

}  // namespace overlapbench
