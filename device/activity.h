// Activity: what a device was doing and when, for timelines (--trace_out).
//
// An `ActivityWatch` (DeviceWatches::Activities) records every piece of work that is enqueued while
// it exists: kernels, copies, fills, waits of streams, and the calls that enqueued them.
//
//   const auto watch = device.watches().Activities();
//   watch->Mark(1);
//   first->Enqueue(*stream);
//   watch->Mark(2);
//   second->Enqueue(*stream);
//   stream->Synchronize(...);
//   for (const Activity& activity : watch->Stop().records) ... // activity.mark is 1 or 2
//
// Times are in milliseconds of the steady clock, as NowMs() (ranks/ranks.h) returns them.
//
// The host backend's streams stamp their own tasks (device/host/activity_log.h). On the cuda
// backend CUPTI records what ran (device/cuda/cupti_watch.h). Without a watch nothing is loaded or
// recorded.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace overlapbench {

enum class ActivityKind : std::uint8_t {
  kKernel,  // or a task of a host stream
  kCopy,
  kFill,
  kWait,  // a stream waits for an event: from reaching the wait until the event has passed
  kGate,  // a stream waits for a gate, likewise
  kCall,  // the host calls the device's library
};
constexpr const char* ToString(ActivityKind kind) {
  constexpr std::array<const char*, 6> kNames = {"kernel", "copy", "fill", "wait", "gate", "call"};
  return kNames.at(static_cast<std::size_t>(kind));
}
// Whether it does work (a kernel, a copy or a fill) rather than wait or call.
constexpr bool IsWork(ActivityKind kind) { return kind <= ActivityKind::kFill; }

struct Activity {
  std::string name = {};  // a kernel's; "" where it has none
  ActivityKind kind = ActivityKind::kKernel;
  std::uint64_t mark = 0;    // the mark in force when it was enqueued; 0: none
  std::uint64_t stream = 0;  // identifies the stream; meaningless for calls
  // A call and everything that it enqueued share one number, as do all copies of a batch.
  std::uint64_t correlation = 0;
  double call_ms = 0;      // when the enqueueing call began; 0: the call has no record
  double enqueued_ms = 0;  // when that call returned
  double begin_ms = 0;
  double end_ms = 0;
  double bytes = 0;  // written by a copy or a fill
  long blocks = 0;   // of a kernel
  // Whether a copy engine makes the copy. SMs make copies within one GPU: such a copy waits for
  // kernels, and they wait for it (H100 and H200, CUDA 13.0: with every call, hint and priority).
  bool by_copy_engine = false;
  std::optional<int> peer = {};  // the other device of a copy between two
  bool is_derived = false;       // from other records and the host's times, not recorded
};

struct Activities {
  std::vector<Activity> records;  // in no order
  long dropped = 0;               // records that did not fit in memory
};

class ActivityWatch {
 public:
  virtual ~ActivityWatch() = default;
  // What this thread enqueues from now on belongs to `mark`.
  virtual void Mark(std::uint64_t mark) = 0;
  // Ends the watch and returns what was recorded. All streams must be idle. To be called once.
  virtual Activities Stop() = 0;
};

}  // namespace overlapbench
