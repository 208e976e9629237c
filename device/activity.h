// Activity: what a device was doing and when, for timelines (--trace_out).
//
// An `ActivityWatch` (Device::WatchActivities) records every piece of work that is enqueued while
// it exists: kernels, copies, fills, what a stream waited for, and the calls that enqueued them.
//
//   const auto watch = device.WatchActivities();
//   watch->Mark(1);
//   first->Enqueue(*stream);
//   watch->Mark(2);
//   second->Enqueue(*stream);
//   stream->Synchronize(...);
//   for (const Activity& activity : watch->Stop().records) ... // activity.mark is 1 or 2
//
// Times are in milliseconds of the steady clock, which is that of NowMs() (ranks/ranks.h).
//
// The host backend's streams stamp their own tasks (device/host/activity_log.h). On the cuda
// backend CUPTI tells what ran (device/cuda/cupti_watch.h). Without a watch nothing is loaded, and
// nothing is recorded.
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
  kWait,  // of a stream for an event, from when it came to it until it was passed
  kGate,  // of a stream for a gate, likewise
  kCall,  // of the host, into the device's library
};
constexpr const char* ToString(ActivityKind kind) {
  constexpr std::array<const char*, 6> kNames = {"kernel", "copy", "fill", "wait", "gate", "call"};
  return kNames.at(static_cast<std::size_t>(kind));
}
// Whether it does something, as kernels, copies and fills do.
constexpr bool IsWork(ActivityKind kind) { return kind <= ActivityKind::kFill; }

struct Activity {
  std::string name = {};  // a kernel's; "" where it has none
  ActivityKind kind = ActivityKind::kKernel;
  std::uint64_t mark = 0;    // what it belongs to; 0: to nothing that was marked
  std::uint64_t stream = 0;  // tells streams apart; of no meaning for calls
  // What one call enqueued has one number: a call and its work, or all copies of a batch.
  std::uint64_t correlation = 0;
  double call_ms = 0;      // when the call that enqueued it began; 0: the call has no record
  double enqueued_ms = 0;  // and returned
  double begin_ms = 0;
  double end_ms = 0;
  double bytes = 0;  // that a copy or a fill writes
  long blocks = 0;   // of a kernel
  // Of a copy: whether an engine makes it. Within a GPU, SMs do: it waits for kernels, and they for
  // it, as seen on H100 and H200 (CUDA 13.0) by every call, hint and priority.
  bool by_copy_engine = false;
  std::optional<int> peer = {};  // of a copy between two devices, the other one
  bool is_derived = false;       // from other records and the host's times: nobody recorded it
};

struct Activities {
  std::vector<Activity> records;  // in no order
  long dropped = 0;               // that did not fit in memory
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
