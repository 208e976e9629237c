#include "benchmarks/catalog.h"

namespace overlapbench {

using Specs = std::vector<WorkloadSpec>;

// First pass over the lists: declare what each line names.
#define WORKLOAD(function) Specs function(Machine& machine);
#define CUDA_WORKLOAD(function, name, side, baseline) WORKLOAD(function)
#include "comm/comm.def"
#include "kernels/kernels.def"
#undef CUDA_WORKLOAD
#undef WORKLOAD

// Second pass: add it. A build without CUDA has no function for those that need it.
#define WORKLOAD(function) registry.Add(function(machine));
#ifdef OVERLAPBENCH_WITH_CUDA
#define CUDA_WORKLOAD(function, name, side, baseline) WORKLOAD(function)
#else
#define CUDA_WORKLOAD(function, name, side, baseline) \
  registry.Add(Specs{Unavailable(name, side, "exists on the cuda backend only", baseline)});
#endif

void FillRegistry(Registry& registry, Machine& machine) {
#include "comm/comm.def"
#include "kernels/kernels.def"
}

}  // namespace overlapbench
