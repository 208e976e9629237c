// What the launcher says of this process before MPI has started.
#pragma once

namespace overlapbench {

struct Launched {
  int rank = 0;
  int size = 1;
};

// From the environment that mpirun or srun sets; rank 0 of 1 without a launcher. Slurm sets its
// variables for the shell of an allocation too, which is no rank.
Launched ByLauncher();

}  // namespace overlapbench
