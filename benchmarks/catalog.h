// The catalog: fills the registry from kernels/kernels.def and comm/comm.def.
#pragma once

#include "workload/registry.h"

namespace overlapbench {

void FillRegistry(Registry& registry, Machine& machine);

}  // namespace overlapbench
