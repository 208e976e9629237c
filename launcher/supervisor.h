// Supervisor: starts mpirun, and stays with it until nothing of the job is left.
//
// - It passes on the output of mpirun and its ranks (relay.h), and what mpirun itself says as one
//   line that names the cause (messages.h).
// - mpirun turns most signals into SIGTERM for its ranks, and abandons them at a second one. Others
//   it passes on, and the ranks know their meaning (ranks/watchdog.h). The supervisor sends only
//   these, again and again: mpirun loses those that arrive before it has started the ranks.
// - mpirun may hang. The supervisor bounds how long it takes until the ranks have started
//   (ranks/signs.h), how long it goes on after their end, and every end that was asked for. Then it
//   kills what is left.
// - It returns only after the last process of the job on this machine is gone, and removes what
//   OpenMPI then has left behind.
// - If the process that called the launcher is killed, the job ends, and mpirun receives SIGTERM if
//   the supervisor is.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <string>
#include <vector>

#include "launcher/signals.h"

namespace overlapbench {

struct Job {
  std::string caller;                // whose messages these are: "bench"
  pid_t parent = 0;                  // the process that called the launcher; 0: not known
  std::vector<std::string> command;  // mpirun and its arguments
  bool is_on_one_machine = false;
  std::chrono::milliseconds start_limit{};  // until the ranks have started MPI
  std::string result;                       // the file of the rows; "" if none
  std::string settings;                     // the user's settings of OpenMPI; "" if none
};

// Returns the exit status.
int Supervise(const Job& job, Signals& signals);
// The same, for a signal that arrived before mpirun was started.
int EndBeforeStart(const std::string& caller, int signal);

}  // namespace overlapbench
