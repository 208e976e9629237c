// Relay: passes on what mpirun writes to a pipe, and never waits for the reader.
//
// A reader that stops reading, such as a pager, must not keep the launcher from seeing signals. So
// the relay writes only what the reader takes, and reads no more than it can pass on.
#pragma once

#include <poll.h>

#include <functional>
#include <string>
#include <string_view>

#include "device/descriptor.h"

namespace overlapbench {

class Relay {
 public:
  // What is passed on, of what has arrived.
  using Filter = std::function<std::string(std::string_view)>;
  // Copies from `source` to the open descriptor `target`, which stays open.
  Relay(Descriptor source, int target, Filter filter);

  // What to wait for: its two places in a poll.
  [[nodiscard]] pollfd Reading() const;
  [[nodiscard]] pollfd Writing() const;
  // Reads and writes what is possible now.
  void Pass();
  void Add(std::string_view text) { waiting_ += text; }

  [[nodiscard]] bool HasEnded() const { return source_.empty(); }  // of the source
  [[nodiscard]] bool IsIdle() const { return waiting_.empty(); }
  // Why the target takes no more: an errno; 0 if it does. What comes is then read and dropped.
  [[nodiscard]] int Error() const { return error_; }

 private:
  // Writes what the target takes without waiting. Returns as write does.
  [[nodiscard]] ssize_t Write() const;

  Descriptor source_;
  Descriptor own_;  // a description of the target's pipe or terminal that does not block
  int target_;
  mode_t type_;  // of the target: S_IFIFO and so on
  Filter filter_;
  std::string waiting_;
  int error_ = 0;
};

}  // namespace overlapbench
