// TraceFiles: the timelines of --trace_out, a file for each row and rank: what ran in a few samples
// of the row's own run, as JSON that Perfetto, chrome://tracing and Meta's HTA open.
//
// The format is that of PyTorch's profiler (Kineto): docs/timelines.md lists the events and their
// arguments. HTA requires more than the format does:
//
// - `"rank": 0` has a space after its colon and comes first: HTA searches for that pattern.
// - Only work has the argument `stream`. HTA treats every event that has one as a kernel.
// - All work has a host call with its correlation. HTA ignores work without one.
// - A `ProfilerStep#` follows the last sample, because HTA drops the last one.
//
// The cache flush before a sample is omitted. Times are those of the ranks' common clock, so the
// files of all ranks fit together.
#pragma once

#include <cstddef>
#include <mutex>
#include <string>

#include "fixtures/row_trace.h"

namespace overlapbench {

class TraceFiles {
 public:
  // Makes the folder. Throws UsageError if no file can be written there.
  explicit TraceFiles(std::string folder);
  // Replaces the file of the same row and rank, as a whole. Throws Error if that fails. Does
  // nothing after Abandon.
  void Write(const RowTrace& trace);
  // The run ends early. Waits until a file that is being written is whole. May be called from any
  // thread.
  void Abandon();

 private:
  std::string folder_;
  std::mutex mutex_;  // held while a file is partial
  bool abandoned_ = false;
};

inline constexpr std::size_t kMostTraceBytes = 20'000'000;

// The text of a trace's file. It leaves out samples that would make it longer than `most_bytes`,
// and says how many.
std::string TraceJson(const RowTrace& trace, std::size_t most_bytes = kMostTraceBytes);

// "Overlap,AllToAll+Gemm,bytes=1024.rank0.json". Names with characters that the suite's own names
// do not have are given a hash, so that different rows have different files.
std::string TraceFileName(const std::string& row, int rank);

}  // namespace overlapbench
