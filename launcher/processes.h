// Processes: those of a job on this machine, also after their parents have ended, and what OpenMPI
// leaves behind if mpirun cannot clean up.
#pragma once

#include <sys/types.h>

#include <vector>

namespace overlapbench {

bool IsStopped(pid_t process);  // by SIGSTOP

// From now on, this process becomes the parent of its descendants' orphans.
void AdoptOrphans();

// The living descendants of `process`, without daemons: processes with a session of their own, such
// as a master connection of ssh. OpenMPI's own daemon does belong to the job.
std::vector<pid_t> LivingDescendants(pid_t process);

// Removes what an mpirun that was killed left on this machine: its folder in TMPDIR, and its ranks'
// shared memory.
void RemoveLeftovers(pid_t mpirun);

}  // namespace overlapbench
