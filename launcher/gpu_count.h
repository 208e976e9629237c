// GpuCount: asks the driver how many GPUs ranks would see.
//
// A driver may take seconds, hang or crash, so a process of its own asks it, and signals end the
// wait. It may also fail for a moment, such as while it still ends a job that was killed. A process
// may keep that error, so another one asks again. An error never counts as "no GPU": the ranks
// would measure another backend than the user expects.
#pragma once

#include <chrono>

#include "device/error.h"
#include "launcher/signals.h"

namespace overlapbench {

// A signal arrived first.
class Interrupted : public Error {
 public:
  explicit Interrupted(int signal) : Error("interrupted"), signal_(signal) {}
  [[nodiscard]] int signal() const { return signal_; }

 private:
  int signal_;
};

struct GpuCountLimits {
  std::chrono::milliseconds answer{};                         // how long one answer may take
  std::chrono::milliseconds again = std::chrono::seconds(5);  // how long failures are tried again
  std::chrono::milliseconds pause = std::chrono::milliseconds(500);  // before the next try
};

// Throws Error if the driver still fails after `limits.again`, and Interrupted.
int CountGpus(Signals& signals, const GpuCountLimits& limits);

}  // namespace overlapbench
