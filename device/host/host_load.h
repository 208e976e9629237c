// The load on the host's cores, for both backends: how many are idle, and how long this process's
// threads wait for one.
//
// Both are differences between two readings of the kernel's counters:
//
//   const CoreTimes before = ReadCoreTimes(AllowedCores());
//   std::this_thread::sleep_for(std::chrono::milliseconds(200));
//   const double idle = IdleCores(before, ReadCoreTimes(AllowedCores()));
//
// On a machine without these files, no load is visible. Core times have a resolution of 10 ms on
// most machines.
//
// Sources: proc(5) (/proc/stat); Linux kernel documentation, "Scheduler Statistics" (schedstat).
#pragma once

#include <filesystem>
#include <map>
#include <set>

namespace overlapbench {

// The cores that this process may use, by their numbers.
std::set<int> AllowedCores();

// Summed over some cores, in ticks of the kernel.
struct CoreTimes {
  int cores = 0;
  double idle = 0;
  double all = 0;
};
// `root` is where /proc is.
CoreTimes ReadCoreTimes(const std::set<int>& cores, const std::filesystem::path& root = "/");
// How many of the cores were idle between two readings, on average. All of them, if the kernel
// counted no ticks.
double IdleCores(const CoreTimes& before, const CoreTimes& after);

// How long each thread of this process has been ready to run without a core, in seconds, by thread
// id.
using ThreadWaits = std::map<long, double>;
ThreadWaits ReadThreadWaits(const std::filesystem::path& root = "/");
// The wait of the thread that waited longest between two readings; 0 if no thread is in both.
double LongestWait_s(const ThreadWaits& before, const ThreadWaits& after);

}  // namespace overlapbench
