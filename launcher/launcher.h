// The launcher: how ./bench starts ranks, in the program itself.
//
//   overlapbench --start=NAME [--parent=PID] [--done=FD] [--ranks=N] [--hostfile=FILE]
//       [--connections=V] -- FLAG...
//
// It reads the flags, decides how many ranks there are (start.h), starts mpirun with this program,
// and stays with it to the end (supervisor.h). NAME is the caller's name, for messages, and PID its
// process, after whose end the job ends too. The launcher writes a line to the descriptor FD once
// it has said why the job ended. It is not in --help: users call ./bench.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "fixtures/options.h"
#include "launcher/signals.h"

namespace overlapbench {

struct StartRequest {
  std::string caller = "bench";
  int parent = 0;
  int done = -1;
  std::string ranks;
  std::string hostfile;
  std::string connections;
  std::vector<std::string> flags;  // of the ranks
};

// Tells the caller that everything has been said.
void TellDone(const StartRequest& request);

// nullopt if the program is not to be the launcher. Throws UsageError.
std::optional<StartRequest> ReadStartRequest(const std::vector<std::string>& arguments);

// Starts the ranks of `program` with the request's flags, which were read as `options`. Returns the
// exit status. Throws UsageError.
int StartRanks(const std::string& program, const StartRequest& request, const Options& options,
               Signals& signals);

}  // namespace overlapbench
