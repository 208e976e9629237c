// TraceJson: a row's trace as JSON that Perfetto, chrome://tracing and Meta's HTA open.
//
// The format is that of PyTorch's profiler (Kineto): docs/timelines.md lists the events. HTA
// requires more than the format does:
//
// - `"rank": 0` has a space after its colon and comes first: HTA searches for that pattern.
// - All work has a host call with its correlation. HTA ignores work without one.
// - A `ProfilerStep#` follows the last sample, because HTA drops the last one.
//
// The cache flush before a sample is omitted. Times are those of the ranks' common clock, so the
// files of all ranks fit together.
#pragma once

#include <cstddef>
#include <string>

#include "fixtures/row_trace.h"

namespace overlapbench {

inline constexpr std::size_t kMostTraceBytes = 20'000'000;

// Leaves out samples that would make the text longer than `most_bytes`, and says how many.
std::string TraceJson(const RowTrace& trace, std::size_t most_bytes = kMostTraceBytes);

}  // namespace overlapbench
