// Graphs of the host backend: an imitation of CUDA's, with which schedules that are recorded can be
// tried without a GPU. A launch repeats the recorded calls of streams, with new events. It saves
// what workloads do to enqueue themselves, and no more.
//
// As in CUDA, a recording begins with one stream, and a stream that waits for an event of a
// recorded stream is recorded too. Unlike in CUDA, the graph's work runs on these streams, so they
// must outlive it.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "device/host/host_stream.h"

namespace overlapbench {

// What streams enqueue while they are recorded.
class HostRecording {
 public:
  // The events of one launch, in the place of those that were recorded.
  using Events = std::map<std::shared_ptr<HostEvent::Mark>, HostEvent>;
  using Call = std::function<void(Events& events)>;

  // All of them run again what they enqueue once the recording ends.
  [[nodiscard]] bool is_open() const { return is_open_; }
  void End() { is_open_ = false; }

  void Add(Call call) { calls_.push_back(std::move(call)); }
  void Repeat() const {
    Events events;
    for (const Call& call : calls_) call(events);
  }

 private:
  bool is_open_ = true;
  std::vector<Call> calls_;
};

// Records what `enqueue` enqueues to `origin`. Throws what it throws.
std::unique_ptr<Graph> RecordHostGraph(std::unique_ptr<HostStream> origin,
                                       const std::function<void(Stream&)>& enqueue);

}  // namespace overlapbench
