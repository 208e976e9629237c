// The ranks of a test program. MPI can be started once in a process, so all its tests share them.
#pragma once

#include <chrono>

#include "backends.h"
#include "ranks/ranks.h"

namespace overlapbench {

// How long the ranks of a test wait for each other.
inline constexpr std::chrono::milliseconds kRanksPatience = std::chrono::seconds(20);

Ranks& TestRanks();

// OnEachBackend with a GPU for each rank.
class RanksOnEachBackend : public OnEachBackend {
 protected:
  int gpus_needed() const override { return TestRanks().local_size(); }
  int ordinal() const override { return TestRanks().local_rank(); }
};

}  // namespace overlapbench
