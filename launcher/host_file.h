// A host file: the machines of a job, one line "node1 slots=8" each.
//
// mpirun reads it. Here, mistakes are found first that mpirun reports badly or not at all.
#pragma once

#include <string>
#include <vector>

namespace overlapbench {

inline constexpr long kMostRanks = 1024;

struct Host {
  std::string name;
  long slots = 0;  // 0: not given; mpirun then takes its number of cores
};

// Reads the text of the host file `name`. Throws UsageError, which names the line.
std::vector<Host> ReadHosts(const std::string& text, const std::string& name);

// "node1 (8), node2 (8)": with the slots that are given.
std::string NameHosts(const std::vector<Host>& hosts);

// The number of all slots; 0 if some host does not give its own.
long CountSlots(const std::vector<Host>& hosts);

}  // namespace overlapbench
