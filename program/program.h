// The program: it reads the command line, starts the ranks, plans the benchmarks that exist on this
// machine, selects by the filter, and lets Google Benchmark run them.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "device/device.h"
#include "ranks/progress.h"

namespace overlapbench {

// What a program can add to the suite's. The suite's own adds nothing.
class ProgramHooks {
 public:
  ProgramHooks() = default;
  virtual ~ProgramHooks() = default;
  ProgramHooks(const ProgramHooks&) = delete;
  ProgramHooks& operator=(const ProgramHooks&) = delete;

  // Whether `argument` is a flag of these hooks, which the suite does not know. Throws UsageError.
  virtual bool Take(const std::string& /*argument*/) { return false; }
  // Before MPI starts. `progress` knows its rank.
  virtual void Begin(Progress& /*progress*/) {}
  // Replaces the device that was opened. `abort_links` aborts the links beside MPI's.
  virtual std::unique_ptr<Device> Wrap(std::unique_ptr<Device> device,
                                       const std::function<void()>& /*abort_links*/) {
    return device;
  }
};

// What main() does. Returns the exit status: 0 if all rows were measured, 1 if a row or the job
// failed, 2 for bad usage, 3 if the self-test failed.
int RunProgram(int argc, char** argv, ProgramHooks& hooks);

}  // namespace overlapbench
