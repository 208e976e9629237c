#include "launcher/processes.h"

#include <fmt/core.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <sstream>
#include <string>
#include <system_error>

namespace overlapbench {
namespace {

namespace fs = std::filesystem;

struct Process {
  pid_t id = 0;
  pid_t parent = 0;
  pid_t session = 0;
  bool is_alive = false;
  bool is_stopped = false;
  std::string name;
};

// Reads /proc/PID/stat: "PID (name) state parent group session ...". The name may contain anything.
// nullopt if the process has ended meanwhile.
std::optional<Process> ReadProcess(const fs::path& folder) {
  std::ifstream file(folder / "stat");
  std::string text;
  std::getline(file, text, '\0');
  const auto open = text.find('(');
  const auto close = text.rfind(')');
  std::istringstream numbers(text.substr(0, open) + text.substr(close + 1));
  Process process;
  char state = 0;
  pid_t group = 0;
  if (!(numbers >> process.id >> state >> process.parent >> group >> process.session))
    return std::nullopt;
  process.is_alive = state != 'Z' && state != 'X';
  process.is_stopped = state == 'T';
  process.name = text.substr(open + 1, close - open - 1);
  return process;
}

std::multimap<pid_t, Process> ProcessesByParent() {
  std::multimap<pid_t, Process> all;
  std::error_code ignored;
  for (const auto& folder : fs::directory_iterator("/proc", ignored)) {
    const std::string name = folder.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    if (const auto process = ReadProcess(folder.path())) all.emplace(process->parent, *process);
  }
  return all;
}

void RemoveSegments(const fs::path& folder, const std::string& job) {
  std::error_code ignored;
  for (const auto& segment : fs::directory_iterator(folder, ignored)) {
    const std::string name = segment.path().filename();
    if (name.starts_with("vader_segment.") && name.find(job) != std::string::npos)
      fs::remove(segment.path(), ignored);
  }
}

}  // namespace

bool IsStopped(pid_t process) {
  const auto found = ReadProcess(fs::path("/proc") / std::to_string(process));
  return found && found->is_stopped;
}

void AdoptOrphans() { prctl(PR_SET_CHILD_SUBREAPER, 1); }

std::vector<pid_t> LivingDescendants(pid_t process) {
  const auto all = ProcessesByParent();
  std::vector<pid_t> living;
  std::vector<pid_t> parents = {process};
  while (!parents.empty()) {
    const pid_t parent = parents.back();
    parents.pop_back();
    for (auto [one, end] = all.equal_range(parent); one != end; ++one) {
      const Process& child = one->second;
      if (child.session == child.id && child.name != "orted") continue;
      if (child.is_alive) living.push_back(child.id);
      parents.push_back(child.id);
    }
  }
  return living;
}

// The names are those of OpenMPI 4.1: ompi.HOST.USER/pid.PROCESS in TMPDIR, and in its folder of
// shared memory vader_segment.HOST.USER.JOB.RANK, with the job's number in hexadecimal. The upper
// half of mpirun's own number is that of its jobs: its contact.txt begins with
// "60489728.0;tcp://...".
void RemoveLeftovers(pid_t mpirun) {
  const std::string user = fmt::format(".{}", getuid());
  const char* set = std::getenv("OMPI_MCA_btl_vader_backing_directory");
  const std::string memory = set == nullptr ? "/dev/shm" : set;
  std::error_code ignored;
  for (const auto& folder : fs::directory_iterator(fs::temp_directory_path(ignored), ignored)) {
    const std::string name = folder.path().filename();
    if (!name.starts_with("ompi.") || !name.ends_with(user)) continue;
    const fs::path own = folder.path() / fmt::format("pid.{}", mpirun);
    unsigned job = 0;
    if (std::ifstream(own / "contact.txt") >> job)
      RemoveSegments(memory, fmt::format("{}.{:x}0001.", user, job >> 16U));
    fs::remove_all(own, ignored);
    fs::remove(folder.path(), ignored);  // if it is empty
  }
}

}  // namespace overlapbench
