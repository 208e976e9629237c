// Capturing work into a CUDA graph instead of running it (CUDA C++ Programming Guide, "Creating a
// Graph Using Stream Capture").
//
// RecordGraph makes a graph that can be launched again and again. CapturedKernels reads which
// kernels the work would launch, without a profiler: it shows whether a setting that a library
// takes only as a hint had an effect.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "device/device.h"

namespace overlapbench {

// Both record what `enqueue` enqueues to `stream`, and to streams that fork from it and join it
// again by events. They throw Error if something in it cannot be captured.

std::unique_ptr<Graph> RecordGraph(Stream& stream, const std::function<void()>& enqueue);

struct CapturedKernel {
  std::string name;  // mangled; "" if the driver does not report it
  long blocks = 0;
};

// The kernels, in no particular order.
std::vector<CapturedKernel> CapturedKernels(Stream& stream, const std::function<void()>& enqueue);
// The number of blocks of each kernel.
std::vector<long> CapturedGrids(Stream& stream, const std::function<void()>& enqueue);

}  // namespace overlapbench
