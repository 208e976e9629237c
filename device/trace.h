// TraceRange: a named range on a profiler's timeline, for as long as the object lives.
//
//   const TraceRange range(RangeKind::kRun, "sample", number);
//
// In builds with CUDA these are NVTX ranges, on both backends; in others they do nothing. As NVIDIA
// recommends, they are in a domain of their own, "overlapbench", so that tools can tell them from
// those of NCCL and cuBLAS. A range's category is its kind. Names are registered strings, since the
// same few recur, and a number is a payload, not a part of the name. nsys shows them above the work
// that they enqueue, and ncu can choose kernels by them (docs/timelines.md).
//
// Without a tool, a range costs a few nanoseconds: NVTX creates no domain, and no name is looked
// up.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace overlapbench {

enum class RangeKind : std::uint8_t {
  kRow,   // measuring a row
  kRun,   // a sample of a run
  kComp,  // enqueueing a step, by its class
  kComm,
  kMem,
  kGate,  // while the start gate is closed
  kWait,  // while the host waits for the device
};

class TraceRange {
 public:
  // `payload`: a count, of samples or of bytes.
  TraceRange(RangeKind kind, const std::string& name,
             std::optional<std::uint64_t> payload = std::nullopt);
  ~TraceRange();
  TraceRange(const TraceRange&) = delete;
  TraceRange& operator=(const TraceRange&) = delete;

  // Whether a tool is attached. Without one, skip computing costly names and payloads.
  static bool IsHeard();
};

}  // namespace overlapbench
