// Pipeline orders: what each rank of a pipeline does, and in which order, as data.
//
// An order is a table with a list of actions for each rank. "2F0" is the forward pass of
// micro-batch 0 through stage 2, "2B0" the backward pass, as PyTorch writes them
// (torch/distributed/pipelining/schedules.py). 1F1B with two stages and three micro-batches:
//
//   rank 0: 0F0 0F1 0B0 0F2 0B1 0B2
//   rank 1: 1F0 1B0 1F1 1B1 1F2 1B2
//
// All orders here have the same form: a warm-up of forward passes, then one forward and one
// backward pass in turn, then the backward passes that are left. They differ in how long the
// warm-up is. With several stages on a rank, as many micro-batches as there are ranks go through
// the first of its stages, then through the second, and so on; backward from the last stage to the
// first.
//
//   GPipe        all forward passes first (Y. Huang et al., GPipe, NeurIPS 2019)
//   1F1B         until the first micro-batch comes back (D. Narayanan et al., PipeDream, SOSP 2019)
//   Interleaved  1F1B with several stages on each rank (D. Narayanan et al., Efficient Large-Scale
//                Language Model Training on GPU Clusters Using Megatron-LM, SC 2021, 2.2)
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "comm/pipeline_stages.h"

namespace overlapbench {

enum class PipelineOrder : std::uint8_t { kGPipe, kOneFOneB, kInterleaved };

struct Action {
  Pass pass = Pass::kForward;
  int stage = 0;
  int microbatch = 0;
  auto operator<=>(const Action&) const = default;
};
using Actions = std::vector<Action>;

// The actions of each rank. Interleaved needs micro-batches in multiples of the ranks.
std::vector<Actions> ActionTable(PipelineOrder order, const PipelineShape& shape);

// "0F0 0F1 0B0 0B1"
std::string ToString(const Actions& actions);

// All actions of a table, each after what it needs. Actions of the same moment are adjacent, if
// every action takes one moment. Throws Error if ranks wait for each other forever.
Actions Play(const std::vector<Actions>& table, const PipelineShape& shape);

// Every micro-batch through all stages and back before the next one starts.
Actions OneAfterTheOther(const PipelineShape& shape);

// The share of time in which a rank computes nothing, if transfers take no time: (p - 1) / (v m + p
// - 1) with p ranks, v stages on each, and m micro-batches (Narayanan et al. 2021, 2.2).
double BubbleShare(const PipelineShape& shape);

// The most forward passes of a rank at a time whose backward pass is still to come: it keeps their
// activations.
int MostInFlight(const Actions& actions);

}  // namespace overlapbench
