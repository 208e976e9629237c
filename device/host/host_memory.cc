#include "device/host/host_memory.h"

#include <algorithm>
#include <fstream>
#include <map>
#include <optional>
#include <string>

namespace overlapbench {
namespace {

using std::filesystem::path;

// Lines of a name, a number and perhaps a unit.
std::map<std::string, std::size_t> ReadTable(const path& name) {
  std::map<std::string, std::size_t> table;
  std::ifstream file(name);
  std::string rest;
  for (std::string key; file >> key;) {
    file >> table[key];
    std::getline(file, rest);
  }
  return table;
}

Memory OfMachine(const path& root) {
  auto kib = ReadTable(root / "proc/meminfo");
  return {kib["MemAvailable:"] << 10, kib["MemTotal:"] << 10};
}

// The file names of one version of control groups.
struct Version {
  const char* groups;
  const char* limit;
  const char* used;
  const char* reclaimable;  // in memory.stat
};
constexpr Version kVersion1 = {"sys/fs/cgroup/memory", "memory.limit_in_bytes",
                               "memory.usage_in_bytes", "total_inactive_file"};
constexpr Version kVersion2 = {"sys/fs/cgroup", "memory.max", "memory.current", "inactive_file"};

// nullopt if the file does not exist, or contains "max".
std::optional<std::size_t> ReadNumber(const path& name) {
  std::size_t number = 0;
  if (std::ifstream(name) >> number) return number;
  return std::nullopt;
}

std::size_t Minus(std::size_t a, std::size_t b) { return a - std::min(a, b); }

std::optional<Memory> OfGroup(const path& group, const Version& version) {
  const auto limit = ReadNumber(group / version.limit);
  const auto used = ReadNumber(group / version.used);
  if (!limit || !used) return std::nullopt;
  auto statistics = ReadTable(group / "memory.stat");
  return Memory{Minus(*limit, Minus(*used, statistics[version.reclaimable])), *limit};
}

// Narrows `least` to the limits of a group and its ancestors. A container may not see its group
// under the kernel's name for it; it then sees the group in place of the root group.
void NarrowTo(const path& root, path group, const Version& version, Memory* least) {
  for (;; group = group.parent_path()) {
    const auto memory = OfGroup(root / version.groups / group, version);
    if (memory) {
      least->free_bytes = std::min(least->free_bytes, memory->free_bytes);
      least->total_bytes = std::min(least->total_bytes, memory->total_bytes);
    }
    if (group.empty()) return;
  }
}

}  // namespace

Memory HostMemory(const path& root) {
  Memory least = OfMachine(root);
  std::ifstream groups(root / "proc/self/cgroup");
  std::string number;
  std::string controllers;
  for (std::string group; std::getline(groups, number, ':') &&
                          std::getline(groups, controllers, ':') && std::getline(groups, group);) {
    const path relative = path(group).relative_path();
    if (controllers.empty()) NarrowTo(root, relative, kVersion2, &least);
    if (controllers.find("memory") != std::string::npos) {
      NarrowTo(root, relative, kVersion1, &least);
    }
  }
  return least;
}

}  // namespace overlapbench
