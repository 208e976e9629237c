#include "device/host/host_load.h"

#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <ctime>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>

#include "device/host/control_groups.h"
#include "device/text.h"

namespace overlapbench {
namespace {

using std::filesystem::path;

double Tick_s() { return 1 / static_cast<double>(sysconf(_SC_CLK_TCK)); }

// All threads of this process, with those that have ended.
double Ran_s() {
  constexpr double kSecondsInNanosecond = 1e-9;
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) +
         static_cast<double>(time.tv_nsec) * kSecondsInNanosecond;
}

double PageIns() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_majflt);
}

}  // namespace

std::set<int> AllowedCores() {
  constexpr int kMost = 1 << 14;  // Linux has at most 8192. It refuses a set that is too small.
  std::array<cpu_set_t, kMost / CPU_SETSIZE> allowed{};
  std::set<int> cores;
  if (sched_getaffinity(0, sizeof(allowed), allowed.data()) != 0) return cores;
  for (int core = 0; core < kMost; ++core)
    if (CPU_ISSET_S(core, sizeof(allowed), allowed.data())) cores.insert(core);
  return cores;
}

std::optional<double> CoreQuota(const path& root) {
  std::optional<double> least;
  for (const auto& [folder, version] : ControlGroups("cpu", root)) {
    double quota_us = 0;
    double period_us = 0;
    if (version == 2) {
      std::ifstream(folder / "cpu.max") >> quota_us >> period_us;  // "max 100000" if there is none
    } else {
      std::ifstream(folder / "cpu.cfs_quota_us") >> quota_us;  // -1 if there is none
      std::ifstream(folder / "cpu.cfs_period_us") >> period_us;
    }
    if (quota_us <= 0 || period_us <= 0) continue;
    const double cores = quota_us / period_us;
    least = std::min(least.value_or(cores), cores);
  }
  return least;
}

CoreTimes ReadCoreTimes(const std::set<int>& cores, const path& root) {
  // user, nice, system, idle, waiting for input and output, interrupts, soft interrupts, stolen
  constexpr int kIdle = 3;
  constexpr int kInputOutput = 4;
  constexpr int kStolen = 7;
  constexpr int kStates = 8;  // later fields are contained in the first two
  const double tick_s = Tick_s();
  constexpr std::string_view kPrefix = "cpu";
  CoreTimes sum;
  std::ifstream file(root / "proc/stat");
  for (std::string line; std::getline(file, line);) {
    std::istringstream fields(line);
    std::string name;
    fields >> name;
    if (!name.starts_with(kPrefix)) continue;
    const auto core = WholeNumber(std::string_view(name).substr(kPrefix.size()));
    if (!core || !cores.contains(static_cast<int>(*core))) continue;
    ++sum.cores;
    double ticks = 0;
    for (int state = 0; state < kStates && fields >> ticks; ++state) {
      sum.all_s += ticks * tick_s;
      if (state == kIdle || state == kInputOutput) sum.idle_s += ticks * tick_s;
      if (state == kStolen) sum.stolen_s += ticks * tick_s;
    }
  }
  return sum;
}

double IdleCores(const CoreTimes& before, const CoreTimes& after) {
  const double all_s = after.all_s - before.all_s;
  return all_s <= 0 ? after.cores : after.cores * (after.idle_s - before.idle_s) / all_s;
}

// The difference of two roundings to ticks has a variance of a sixth of a tick squared.
double CoreTimesError_s(int cores) {
  constexpr double kDeviations = 3;
  constexpr double kVariance = 1.0 / 6;
  return kDeviations * Tick_s() * std::sqrt(kVariance * cores);
}

ThreadTimes ReadThreadTimes(const path& root) {
  constexpr double kSecondsInNanosecond = 1e-9;
  ThreadTimes times;
  std::error_code gone;
  for (const auto& thread : std::filesystem::directory_iterator(root / "proc/self/task", gone)) {
    const auto number = WholeNumber(thread.path().filename().string());
    double ran_ns = 0;
    double waited_ns = 0;
    std::ifstream file(thread.path() / "schedstat");
    if (number && file >> ran_ns >> waited_ns)
      times[*number] = {ran_ns * kSecondsInNanosecond, waited_ns * kSecondsInNanosecond};
  }
  return times;
}

// A thread that the first reading lacks began after it.
double WaitedShare(const ThreadTimes& before, const ThreadTimes& after, double least_s) {
  double greatest = 0;
  for (const auto& [thread, time] : after) {
    const auto found = before.find(thread);
    const ThreadTime earlier = found == before.end() ? ThreadTime() : found->second;
    const double waited_s = time.waited_s - earlier.waited_s;
    const double ran_s = std::max(time.ran_s - earlier.ran_s, least_s);
    if (waited_s > 0) greatest = std::max(greatest, waited_s / (waited_s + ran_s));
  }
  return greatest;
}

double ReadLimited_s(const path& root) {
  constexpr double kSecondsInNanosecond = 1e-9;
  constexpr double kSecondsInMicrosecond = 1e-6;
  double sum_s = 0;
  for (const ControlGroup& group : ControlGroups("cpu", root)) {
    auto numbers = ReadNumbers(group.folder / "cpu.stat");
    sum_s += group.version == 1
                 ? static_cast<double>(numbers["throttled_time"]) * kSecondsInNanosecond
                 : static_cast<double>(numbers["throttled_usec"]) * kSecondsInMicrosecond;
  }
  return sum_s;
}

HostReading ReadHost(const std::set<int>& cores) {
  return {.when = std::chrono::steady_clock::now(),
          .cores = ReadCoreTimes(cores),
          .threads = ReadThreadTimes(),
          .ran_s = Ran_s(),
          .limited_s = ReadLimited_s(),
          .page_ins = PageIns()};
}

}  // namespace overlapbench
