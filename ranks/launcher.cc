#include "ranks/launcher.h"

#include <cstdlib>

namespace overlapbench {
namespace {

// The first that is set among variables of OpenMPI, PMIx, PMI and Slurm.
template <std::size_t Count>
int FirstSet(const char* const (&variables)[Count], int otherwise) {
  for (const char* variable : variables) {
    if (const char* value = std::getenv(variable))
      return static_cast<int>(std::strtol(value, nullptr, 10));
  }
  return otherwise;
}

// Numbers of steps from 4294967290 on are the allocation's own shells.
bool IsSlurmTask() {
  constexpr unsigned long long kFirstOfShells = 4294967290;
  const char* step = std::getenv("SLURM_STEP_ID");
  return step != nullptr && *step != '\0' && std::strtoull(step, nullptr, 10) < kFirstOfShells;
}

}  // namespace

Launched ByLauncher() {
  const bool slurm = IsSlurmTask();
  return {
      FirstSet({"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK"},
               slurm ? FirstSet({"SLURM_PROCID"}, 0) : 0),
      FirstSet({"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"}, slurm ? FirstSet({"SLURM_NTASKS"}, 1) : 1)};
}

}  // namespace overlapbench
