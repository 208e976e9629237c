// TraceFiles: the timelines of --trace_out (report/trace_json.h): a file for each row and rank,
// with what ran in a few samples of the row's own run.
#pragma once

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

// "Overlap,AllToAll+Gemm,bytes=1024.rank0.json". Names with characters that the suite's own names
// do not have are given a hash, so that different rows have different files.
std::string TraceFileName(const std::string& row, int rank);

}  // namespace overlapbench
