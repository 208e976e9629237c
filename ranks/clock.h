// Clock: how far one process's clock is from another's.
//
// Rank 0 answers every other rank's question "what time is it?"; the quickest of several exchanges
// is the most exact, to half its length (F. Cristian, Probabilistic clock synchronization, 1989).
// Rank 0 takes the others in turn, so that `ranks` should hold one process a machine: those of a
// machine have one clock.
#pragma once

#include <mpi.h>

#include <functional>

#include "ranks/ranks.h"

namespace overlapbench {

// Milliseconds of this process's clock.
double NowMs();

// What makes this rank's clock rank 0's when added. Called by all of `comm` together; `ranks`
// bounds the waiting.
double ClockOffsetMs(const Ranks& ranks, MPI_Comm comm, const std::function<double()>& now_ms);

}  // namespace overlapbench
