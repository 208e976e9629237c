#include "device/host/host_memory.h"

#include <algorithm>
#include <fstream>
#include <optional>

#include "device/host/control_groups.h"

namespace overlapbench {
namespace {

using std::filesystem::path;

Memory OfMachine(const path& root) {
  auto kib = ReadNumbers(root / "proc/meminfo");
  return {kib["MemAvailable:"] << 10, kib["MemTotal:"] << 10};
}

// The file names of one version of control groups.
struct Version {
  const char* limit;
  const char* used;
  const char* reclaimable;  // in memory.stat
};
constexpr Version kVersion1 = {"memory.limit_in_bytes", "memory.usage_in_bytes",
                               "total_inactive_file"};
constexpr Version kVersion2 = {"memory.max", "memory.current", "inactive_file"};

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
  auto statistics = ReadNumbers(group / "memory.stat");
  return Memory{Minus(*limit, Minus(*used, statistics[version.reclaimable])), *limit};
}

}  // namespace

Memory HostMemory(const path& root) {
  Memory least = OfMachine(root);
  for (const ControlGroup& group : ControlGroups("memory", root)) {
    const auto memory = OfGroup(group.folder, group.version == 1 ? kVersion1 : kVersion2);
    if (!memory) continue;
    least.free_bytes = std::min(least.free_bytes, memory->free_bytes);
    least.total_bytes = std::min(least.total_bytes, memory->total_bytes);
  }
  return least;
}

}  // namespace overlapbench
