// TraceFacts: the arguments of a sample's events in a trace's file: what each one belongs to, and
// what is known of it. docs/timelines.md lists them.
//
// HTA treats every event that has a `stream` as a kernel, so only work has one.
#pragma once

#include <cstddef>
#include <cstdint>

#include "fixtures/row_trace.h"
#include "fixtures/row_waits.h"
#include "report/json.h"

namespace overlapbench {

class TraceFacts {
 public:
  // All but the number of the sample must outlive this.
  TraceFacts(const RowTrace& trace, std::size_t sample, Awaited awaited)
      : trace_(trace),
        schedule_(trace.run.schedule),
        sample_(sample),
        awaited_(std::move(awaited)) {}

  // What any event of the sample says. `mark`: of the step that it belongs to; 0: of none.
  [[nodiscard]] JsonObject About(std::uint64_t mark = 0) const;
  // Of an activity that is drawn on the track of this number.
  [[nodiscard]] JsonObject Of(const Activity& activity, int track) const;

 private:
  void AddWork(const Activity& activity, int track, JsonObject& facts) const;
  void AddPeer(const Activity& activity, JsonObject& facts) const;
  void AddStep(std::uint64_t mark, JsonObject& facts) const;
  // The number of a step in this sample, the same on all ranks.
  [[nodiscard]] std::uint64_t NumberOf(std::uint64_t mark) const {
    return sample_ * schedule_.steps().size() + mark;
  }

  const RowTrace& trace_;
  const Schedule& schedule_;
  std::size_t sample_;
  Awaited awaited_;
};

}  // namespace overlapbench
