#include "device/host/host_load.h"

#include <sched.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>

namespace overlapbench {
namespace {

using std::filesystem::path;

std::optional<int> NumberIn(std::string_view text) {
  int number = 0;
  const auto [end, error] = std::from_chars(text.begin(), text.end(), number);
  if (error != std::errc() || end != text.end()) return std::nullopt;
  return number;
}

}  // namespace

std::set<int> AllowedCores() {
  std::set<int> cores;
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return cores;
  for (int core = 0; core < CPU_SETSIZE; ++core)
    if (CPU_ISSET(core, &allowed)) cores.insert(core);
  return cores;
}

CoreTimes ReadCoreTimes(const std::set<int>& cores, const path& root) {
  constexpr int kIdle = 3;  // user, nice, system, idle, waiting for input and output, ...
  constexpr int kInputOutput = 4;
  constexpr int kStates = 8;  // later fields are contained in the first two
  constexpr std::string_view kPrefix = "cpu";
  CoreTimes sum;
  std::ifstream file(root / "proc/stat");
  for (std::string line; std::getline(file, line);) {
    std::istringstream fields(line);
    std::string name;
    fields >> name;
    if (!name.starts_with(kPrefix)) continue;
    const auto core = NumberIn(std::string_view(name).substr(kPrefix.size()));
    if (!core || !cores.contains(*core)) continue;
    ++sum.cores;
    double ticks = 0;
    for (int state = 0; state < kStates && fields >> ticks; ++state) {
      sum.all += ticks;
      if (state == kIdle || state == kInputOutput) sum.idle += ticks;
    }
  }
  return sum;
}

double IdleCores(const CoreTimes& before, const CoreTimes& after) {
  const double all = after.all - before.all;
  return all <= 0 ? after.cores : after.cores * (after.idle - before.idle) / all;
}

ThreadWaits ReadThreadWaits(const path& root) {
  constexpr double kNanosecondsInSecond = 1e9;
  ThreadWaits waits;
  std::error_code gone;
  for (const auto& thread : std::filesystem::directory_iterator(root / "proc/self/task", gone)) {
    const auto number = NumberIn(thread.path().filename().string());
    double running_ns = 0;
    double waiting_ns = 0;
    std::ifstream file(thread.path() / "schedstat");
    if (number && file >> running_ns >> waiting_ns)
      waits[*number] = waiting_ns / kNanosecondsInSecond;
  }
  return waits;
}

double LongestWait_s(const ThreadWaits& before, const ThreadWaits& after) {
  double longest_s = 0;
  for (const auto& [thread, waited_s] : after) {
    const auto earlier = before.find(thread);
    if (earlier != before.end()) longest_s = std::max(longest_s, waited_s - earlier->second);
  }
  return longest_s;
}

}  // namespace overlapbench
