// CallGroup: calls that a library collects, and starts together when the group is closed.
//
//   CallGroup group(StartGroup, ncclGroupEnd);
//   ...                                    // calls, which may throw
//   Check(group.Close());
//
// If a call throws, the group must still be closed, or the library would add all later calls to it.
// NCCL drops all calls of a group in which one has failed.
#pragma once

#include <utility>

namespace overlapbench {

// `End` closes the group and does not throw.
template <class End>
class CallGroup {
 public:
  // `start` opens the group, or throws.
  template <class Start>
  CallGroup(const Start& start, End end) : end_(std::move(end)) {
    start();
  }
  ~CallGroup() {
    if (open_) end_();
  }
  CallGroup(const CallGroup&) = delete;
  CallGroup& operator=(const CallGroup&) = delete;

  // Closes the group and returns the library's result.
  auto Close() {
    open_ = false;
    return end_();
  }

 private:
  End end_;
  bool open_ = true;
};

}  // namespace overlapbench
