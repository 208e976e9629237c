// Start: how many ranks a job has, on which machines, and the command that starts them.
//
// Without a host file, all ranks run on this machine, also inside an allocation of several: mpirun
// would spread them over its nodes, and measure a network that no one asked for.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "fixtures/options.h"
#include "launcher/host_file.h"

namespace overlapbench {

// What ./bench was asked for.
struct Wish {
  Options::BackendChoice backend = Options::BackendChoice::kAuto;
  long ranks = 0;           // 0: not given
  std::string hostfile;     // "" if none
  std::string connections;  // of CUDA_DEVICE_MAX_CONNECTIONS; "" if it is not varied
};

struct Start {
  std::vector<std::string> command;  // mpirun and its arguments, up to the program
  std::string told;                  // for the first line: "2 ranks on node1, backend host"
  std::vector<std::string> flags;  // of the ranks: what was told, in place of what they would find
};

// `hosts` are those of the host file, if it could be read before mpirun does. `gpus` counts this
// machine's GPUs, which takes time. `nodes` is the number of machines of the allocation that this
// process runs in; 1 if in none. Throws UsageError.
Start PlanStart(const Wish& wish, const std::vector<Host>& hosts, const std::string& machine,
                const std::function<int()>& gpus, int nodes);

// The value of an environment variable; "" if it is not set.
using Environment = std::function<std::string(const std::string& name)>;

// The number of machines in the allocation of Slurm, PBS, LSF or Grid Engine; 1 if there is none.
// `lines` reads a file.
int AllocatedNodes(const Environment& environment,
                   const std::function<std::vector<std::string>(const std::string&)>& lines);

// Settings that keep mpirun on this machine, as NAME=VALUE. The user's own win.
std::vector<std::pair<std::string, std::string>> OneMachineSettings();

}  // namespace overlapbench
