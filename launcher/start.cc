#include "launcher/start.h"

#include <fmt/core.h>

#include <array>
#include <cstdlib>
#include <set>
#include <sstream>

#include "device/error.h"
#include "device/text.h"
#include "ranks/signs.h"

namespace overlapbench {
namespace {

using Choice = Options::BackendChoice;

const char* NameOf(Choice backend) {
  constexpr std::array<const char*, 3> kNames = {"auto", "host", "cuda"};
  return kNames.at(static_cast<std::size_t>(backend));
}

std::string CountRanks(long ranks) {
  return fmt::format("{} rank{}", ranks, ranks == 1 ? "" : "s");
}

// "4 ranks on node1 (2), node2 (2)".
std::string TellHosts(const Wish& wish, const std::vector<Host>& hosts) {
  const std::string where = hosts.empty() ? "the machines of " + wish.hostfile : NameHosts(hosts);
  const long ranks = wish.ranks > 0 ? wish.ranks : CountSlots(hosts);
  return (ranks > 0 ? CountRanks(ranks) : "a rank in each slot") + " on " + where;
}

}  // namespace

Start PlanStart(const Wish& wish, const std::vector<Host>& hosts, const std::string& machine,
                const std::function<int()>& gpus, int nodes) {
  Start start{{"mpirun"}, "", {}};
  auto& words = start.command;
  Choice backend = wish.backend;
  long ranks = wish.ranks;
  if (!wish.hostfile.empty()) {
    if (ranks == 0 && CountSlots(hosts) > kMostRanks)
      throw UsageError(fmt::format("--hostfile: {} has {} slots; at most {} ranks can be started",
                                   wish.hostfile, CountSlots(hosts), kMostRanks));
    if (ranks > 0) words.insert(words.end(), {"-n", std::to_string(ranks)});
    words.insert(words.end(), {"--hostfile", wish.hostfile});
    start.told = TellHosts(wish, hosts);
  } else {
    if (ranks == 0 && backend != Choice::kHost) {
      const int count = gpus();
      // Without a GPU, one rank reports what the cuda backend lacks.
      ranks = count > 0 ? count : backend == Choice::kCuda ? 1 : 0;
      backend = ranks > 0 ? Choice::kCuda : Choice::kHost;
    }
    if (ranks == 0) ranks = 2;
    words.insert(words.end(), {"-n", std::to_string(ranks), "--oversubscribe"});
    start.told = CountRanks(ranks) + " on " + machine;
    if (nodes > 1)
      start.told += fmt::format(
          " alone, not on all {} nodes of the allocation (for those: srun "
          "--mpi=pmix -K ./bench)",
          nodes);
  }
  start.told += std::string(", backend ") + NameOf(backend);
  if (backend != wish.backend) start.flags.push_back(std::string("--backend=") + NameOf(backend));
  words.insert(words.end(), {"--bind-to", "none", "-x", kSignsVariable});
  if (wish.connections.empty()) return start;
  start.told += ", connections:" + wish.connections;
  start.flags.push_back("--axis=connections=" + wish.connections);
  if (wish.connections != "0")
    words.insert(words.end(), {"-x", "CUDA_DEVICE_MAX_CONNECTIONS=" + wish.connections});
  return start;
}

int AllocatedNodes(const Environment& environment,
                   const std::function<std::vector<std::string>(const std::string&)>& lines) {
  for (const char* name : {"SLURM_JOB_NUM_NODES", "SLURM_NNODES"}) {
    const std::string count = environment(name);
    if (!count.empty()) return static_cast<int>(WholeNumber(count).value_or(1));
  }
  // Files with the name of a machine at the beginning of each line.
  for (const char* name : {"PBS_NODEFILE", "PE_HOSTFILE", "LSB_DJOB_HOSTFILE"}) {
    const std::string file = environment(name);
    if (file.empty()) continue;
    std::set<std::string> machines;
    for (const std::string& line : lines(file)) {
      std::string machine;
      if (std::istringstream(line) >> machine) machines.insert(machine);
    }
    return static_cast<int>(machines.size());
  }
  return 1;
}

std::vector<std::pair<std::string, std::string>> OneMachineSettings() {
  return {{"OMPI_MCA_ras", "^slurm,tm,lsf,gridengine,alps"},
          {"OMPI_MCA_plm", "^slurm,tm,lsf,alps"},
          {"OMPI_MCA_orte_default_hostfile", "none"}};
}

}  // namespace overlapbench
