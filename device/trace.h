// TraceRange: a named range on a profiler's time line, as long as the object lives.
//
// With CUDA these are NVTX ranges (registered strings, so that nsys can capture by name):
//   nsys profile --capture-range=nvtx --nvtx-capture=COMM ...
// Phases are named COMP, COMM, MEM, sample; each scenario has a range with the benchmark's name.
// Without CUDA they do nothing.
#pragma once

#include <string>

namespace overlapbench {

class TraceRange {
 public:
  explicit TraceRange(const std::string& name);
  ~TraceRange();
  TraceRange(const TraceRange&) = delete;
  TraceRange& operator=(const TraceRange&) = delete;
};

}  // namespace overlapbench
