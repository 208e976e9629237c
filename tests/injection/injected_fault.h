// Injected faults: a chosen rank fails in a chosen way at a chosen point, to prove that the suite
// handles it. Only the program overlapbench_with_faults has the flag; its results' context names
// the faults (`injected_fault`).
//
//   --inject_fault=KIND@PHASE[,rank=R][,visit=N][,ms=M][,bytes=B]
//
// PHASE is a name of kPhaseNames in injected_fault.cc. The fault strikes when rank R (default 0)
// enters it for the N-th time (default 1). KIND is a line of the table in injected_fault.cc. Faults
// are real if possible: a killed process, a full disk, an allocation that cannot succeed, a kernel
// that traps, an aborted communicator, a flipped bit in a result.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "program/program.h"
#include "ranks/progress.h"
#include "tests/injection/faulty_device.h"

namespace overlapbench {

struct Fault {
  std::string kind;
  Phase phase = Phase::kBetween;
  long rank = 0;
  long visit = 1;
  long ms = 1000;     // of a delay
  long bytes = 4096;  // the largest file that fits on the full disk
};

// Throws UsageError, which says what is wrong with `text`.
Fault ParseFault(const std::string& text);
// One line for each kind, for the documentation and the error message.
std::string FaultKinds();

class FaultInjector : public ProgramHooks {
 public:
  // Takes --inject_fault=FAULT, which may be given several times.
  bool Take(const std::string& argument) override;
  void Begin(Progress& progress) override;
  // From here on, faults can strike the device and, through `abort_links`, the ranks' links.
  std::unique_ptr<Device> Wrap(std::unique_ptr<Device> device,
                               const std::function<void()>& abort_links) override;

 private:
  void Strike(Phase phase);

  std::string given_;  // every fault as it was given, for the context
  std::vector<Fault> faults_;
  std::vector<long> visits_;
  FaultyDevice* device_ = nullptr;
  std::function<void()> abort_links_;
};

}  // namespace overlapbench
