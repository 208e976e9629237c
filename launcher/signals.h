// Signals: those that this process receives, one after the other, and none before it asks.
//
// Create it in the first instruction of the program: from then on no signal ends the process, and
// none is lost. Signals that were ignored before, as by nohup, stay ignored.
#pragma once

#include <csignal>

#include "device/descriptor.h"

namespace overlapbench {

class Signals {
 public:
  Signals();

  // Readable when a signal has arrived.
  [[nodiscard]] int descriptor() const { return queue_.get(); }
  // The next signal that has arrived; 0 if there is none.
  int Next();
  // In a new child, before it executes a program: as it was before.
  void RestoreInChild() const;

 private:
  sigset_t before_{};
  Descriptor queue_;
};

}  // namespace overlapbench
