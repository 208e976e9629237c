// StandIn: takes from a computation what a communication would take, and moves nothing to anyone.
//
// It holds a number of SMs for a time and, if asked to, copies bytes within the GPU's memory
// meanwhile. With a span well below the last-level cache's size the copies stay in the cache; with
// a large one they go through memory. So a communication's causes of a slowdown can be had one at a
// time (benchmarks/lab_attribution.cc), and any of them as a known cause:
//
//   --pair StandIn+CublasGemm --axis stand_in_sms=16
//
// It takes the time that was asked for from event to event, as the communication does: what its
// launch and its end add is measured once, and the kernel holds the SMs for so much less.
//
// A block holds a whole SM, by all of its shared memory. As many of its warps copy as take the time
// that was asked for, and no more. Between copies they sleep for as long as the link would take. By
// Little's law, the same rate then needs as many bytes in flight as over the link, and other
// traffic slows them down as it slows down a communication. Copy engines could not make these
// copies: within one GPU, kernels make them (docs/laboratory.md).
#pragma once

#include <cstddef>
#include <functional>
#include <memory>

#include "workload/workload.h"

namespace overlapbench {

struct StandInOptions {
  int sms = 0;
  double duration_us = 0;       // from event to event
  std::size_t moved_bytes = 0;  // read and written together, in less than the duration
  std::size_t span_bytes = 0;   // of the memory that they are read from and written to
};

// `options` is called in Workload::Connect, when workloads that were made before are connected.
// `most_span_bytes`: the footprint, which must be known before.
std::unique_ptr<Workload> MakeStandIn(const Machine& machine, std::size_t most_span_bytes,
                                      std::function<StandInOptions()> options);

}  // namespace overlapbench
