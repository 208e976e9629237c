#include "device/host/control_groups.h"

#include <fstream>

namespace overlapbench {

using std::filesystem::path;

std::vector<ControlGroup> ControlGroups(const std::string& controller, const path& root) {
  std::vector<ControlGroup> groups;
  const auto add = [&](const path& mounted, path group, int version) {
    for (;; group = group.parent_path()) {
      groups.push_back({mounted / group, version});
      if (group.empty()) return;
    }
  };
  std::ifstream file(root / "proc/self/cgroup");
  std::string number;
  std::string controllers;
  for (std::string group; std::getline(file, number, ':') && std::getline(file, controllers, ':') &&
                          std::getline(file, group);) {
    const path relative = path(group).relative_path();
    if (controllers.empty()) add(root / "sys/fs/cgroup", relative, 2);
    if (("," + controllers + ",").find("," + controller + ",") != std::string::npos)
      add(root / "sys/fs/cgroup" / controller, relative, 1);
  }
  return groups;
}

std::map<std::string, std::size_t> ReadNumbers(const path& file) {
  std::map<std::string, std::size_t> numbers;
  std::ifstream lines(file);
  std::string rest;
  for (std::string name; lines >> name;) {
    lines >> numbers[name];
    std::getline(lines, rest);
  }
  return numbers;
}

}  // namespace overlapbench
