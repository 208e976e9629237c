// TraceRange: a named range on a profiler's timeline, for as long as the object lives.
//
//   const TraceRange range("sample");               // looks the name up in a table
//
//   const TraceName launch("launch");               // registers the name once
//   for (...) { const TraceRange range(launch); }   // no lookup: for loops of many short ranges
//
// With CUDA these are NVTX ranges. Their names are registered strings, so that nsys can start a
// capture by name:
//   nsys profile --capture-range=nvtx --nvtx-capture=COMM ...
// A phase's range is named COMP, COMM, MEM or sample; a benchmark's range has the benchmark's name.
// Without CUDA they do nothing.
#pragma once

#include <string>

namespace overlapbench {

// A name that was registered with the profiler. Registering the same name again is harmless.
class TraceName {
 public:
  explicit TraceName(const std::string& name);

 private:
  friend class TraceRange;
  void* registered_ = nullptr;  // an nvtxStringHandle_t, which NVTX never frees
};

class TraceRange {
 public:
  explicit TraceRange(const TraceName& name);
  explicit TraceRange(const std::string& name);
  ~TraceRange();
  TraceRange(const TraceRange&) = delete;
  TraceRange& operator=(const TraceRange&) = delete;
};

}  // namespace overlapbench
