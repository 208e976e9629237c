// Jobs of the supervisor whose mpirun is a script.
#pragma once

#include <string>
#include <utility>

#include "child.h"
#include "launcher/supervisor.h"

namespace overlapbench {

// What a script does in place of the ranks.
inline const std::string kStarted = R"(printf '\036started\n' >&2; )";
inline const std::string kEnded = R"(printf '\036ended\n' >&2; )";
inline const std::string kSignalled = R"(printf '\036signalled\n' >&2; )";
// Signals are handled in between.
inline const std::string kForEver = "while :; do sleep 0.02; done";

// Starts a job whose mpirun is `script`, unless `job` has a command.
inline Child Supervise(const std::string& script, Job job = {}, Descriptor out = {}) {
  job.caller = "bench";
  if (job.command.empty()) job.command = {"bash", "-c", script};
  if (job.start_limit == std::chrono::milliseconds(0)) job.start_limit = std::chrono::seconds(30);
  return Child(
      [&] {
        Signals signals;
        return Supervise(job, signals);
      },
      std::move(out));
}

struct EndedJob {
  int status = 0;
  std::string out;
  std::string err;
  double seconds = 0;
};

// The same, to its end.
inline EndedJob Supervised(const std::string& script, const Job& job = {}) {
  Child child = Supervise(script, job);
  const int status = child.End();
  return {status, child.Out(), child.Err(), child.seconds()};
}

}  // namespace overlapbench
