// The softmax's CUDA kernels, for softmax.cc alone.
#pragma once

#include "kernels/softmax.h"

namespace overlapbench {

void LaunchUnfusedSoftmax(Stream& stream, const SoftmaxProblem& problem);
void LaunchBlockPerRowSoftmax(Stream& stream, const SoftmaxProblem& problem);
void LaunchFusedSoftmax(Stream& stream, const SoftmaxProblem& problem);
void LaunchTwoPassSoftmax(Stream& stream, const SoftmaxProblem& problem);

// What kFused keeps in its workspace: the ring's counters.
struct SoftmaxRingCounters {
  unsigned next_row;           // that no cluster has taken yet
  unsigned finished_clusters;  // the last one sets both counters back to 0
};

}  // namespace overlapbench
