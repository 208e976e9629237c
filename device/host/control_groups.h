// The control groups of this process: how a container or a batch system limits it.
//
//   for (const auto& group : ControlGroups("memory")) Read(group.folder / "memory.max");
//
// Sources: cgroups(7); Linux kernel documentation, "Control Group v2".
#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace overlapbench {

struct ControlGroup {
  std::filesystem::path folder;
  int version = 2;  // of control groups: the files' names and units differ
};

// The groups that limit what `controller` controls, from this process's own up to the root. A
// container may not see its group under the kernel's name for it; it then sees the group in place
// of the root group. Some of the folders may not exist. `root` is where /proc and /sys are.
std::vector<ControlGroup> ControlGroups(const std::string& controller,
                                        const std::filesystem::path& root = "/");

// The numbers of a file with a name, a number and perhaps a unit on each line. Empty if the file
// cannot be read.
std::map<std::string, std::size_t> ReadNumbers(const std::filesystem::path& file);

}  // namespace overlapbench
