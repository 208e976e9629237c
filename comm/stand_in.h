// StandIn: takes the same resources from a computation as a communication would, but sends nothing.
//
// It holds a number of SMs for a time and can copy bytes within the GPU's memory meanwhile. With a
// span well below the last-level cache's size the copies stay in the cache; with a large one they
// go through memory. This separates the ways in which a communication slows a computation down
// (benchmarks/lab_attribution.cc), and imposes any of them as a known cause:
//
//   --pair StandIn+CublasGemm --axis stand_in_sms=16
//
// Its duration, from event to event, is the requested one: the overhead of launch and completion is
// measured once, and the kernel holds the SMs for that much less.
//
// A block holds a whole SM by using all of its shared memory. Only as many of its warps copy as are
// needed to finish within the requested time. Between copies they sleep for the link's latency. By
// Little's law, the same rate then needs as many bytes in flight as over the link, and other
// traffic slows the copies down as it slows down a communication. Copy engines cannot make these
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
  std::size_t moved_bytes = 0;  // reads plus writes, in less than the duration
  std::size_t span_bytes = 0;   // of the memory that they are read from and written to
};

// Workload::Connect calls `options`, after workloads made earlier have connected.
// `most_span_bytes`: the footprint, which must be known beforehand.
std::unique_ptr<Workload> MakeStandIn(const Machine& machine, std::size_t most_span_bytes,
                                      std::function<StandInOptions()> options);

}  // namespace overlapbench
