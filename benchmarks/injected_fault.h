// Injected faults: a chosen rank fails in a chosen way at a chosen place, to prove that the suite
// holds. Off unless asked for; a result's context names what was asked.
//
//   --inject_fault=KIND@PHASE[,rank=R][,visit=N][,ms=M][,bytes=B]
//
// PHASE is one of ranks/progress.h's, by its short name; the fault strikes when rank R (default 0)
// begins it for the N-th time (default 1). KIND is a line of the table in injected_fault.cc. Faults
// are real where they can be: a killed process, a full disk, memory that is not there, a kernel
// that traps, an aborted communicator, a flipped bit of a result.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "benchmarks/faulty_device.h"
#include "ranks/progress.h"

namespace overlapbench {

struct Fault {
  std::string kind;
  Phase phase = Phase::kBetween;
  long rank = 0;
  long visit = 1;
  long ms = 1000;     // of a delay
  long bytes = 4096;  // that a file may have when the disk is full
};

// Throws UsageError naming what is wrong with it.
Fault ParseFault(const std::string& text);
// One line for each kind, for the documentation and the error message.
std::string FaultKinds();

class FaultInjector {
 public:
  // `texts`: what --inject_fault was given, which may be nothing. `progress` knows its rank
  // already.
  FaultInjector(const std::vector<std::string>& texts, Progress& progress);

  // From here on faults can strike at the device and, by `abort_links`, at the ranks' links.
  std::unique_ptr<Device> Wrap(std::unique_ptr<Device> device, std::function<void()> abort_links);

 private:
  void Strike(Phase phase);

  std::vector<Fault> faults_;
  std::vector<long> visits_;
  FaultyDevice* device_ = nullptr;
  std::function<void()> abort_links_;
};

}  // namespace overlapbench
