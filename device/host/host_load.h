// The load on the host's cores, for both backends: what kept this process's threads from running.
//
// All of it is the difference between two readings of the kernel's counters:
//
//   const HostReading before = ReadHost(AllowedCores());
//   ... // what is measured
//   const HostReading after = ReadHost(AllowedCores());
//   const double idle = IdleCores(before.cores, after.cores);
//   const double share = WaitedShare(before.threads, after.threads, sampled_s);
//
// On a machine without these files, no load is visible. Core times have a resolution of 10 ms on
// most machines, all others of less than a microsecond.
//
// Sources: proc(5) (/proc/stat), getrusage(2); Linux kernel documentation, "Scheduler Statistics"
// (schedstat), "CFS Bandwidth Control" (cpu.stat, cpu.cfs_quota_us), "Control Group v2" (cpu.max).
#pragma once

#include <chrono>
#include <filesystem>
#include <map>
#include <optional>
#include <set>

namespace overlapbench {

// The cores that this process may use, by their numbers.
std::set<int> AllowedCores();
// How many cores' time its control groups allow this process and others in them; nullopt if they
// set no quota. `root` is where /proc and /sys are.
std::optional<double> CoreQuota(const std::filesystem::path& root = "/");

// Summed over some cores, in seconds.
struct CoreTimes {
  int cores = 0;
  double idle_s = 0;
  double stolen_s = 0;  // a hypervisor ran something else
  double all_s = 0;
};
// `root` is where /proc is.
CoreTimes ReadCoreTimes(const std::set<int>& cores, const std::filesystem::path& root = "/");
// How many of the cores were idle between two readings, on average. All of them, if the kernel
// counted no ticks.
double IdleCores(const CoreTimes& before, const CoreTimes& after);
// How far the sum of a time over `cores` cores may be off between two readings: three standard
// deviations of what rounding to ticks does.
double CoreTimesError_s(int cores);

// How long a thread ran, and how long it was ready to run without a core.
struct ThreadTime {
  double ran_s = 0;
  double waited_s = 0;
};
using ThreadTimes = std::map<long, ThreadTime>;  // of this process, by thread id
ThreadTimes ReadThreadTimes(const std::filesystem::path& root = "/");
// The share of its time that a thread waited between two readings: w / (w + the time it ran), of
// the thread with the greatest share. A thread that ran for less than `least_s` counts as having
// run for so long: it may have waited all its life, and yet not long enough to matter.
double WaitedShare(const ThreadTimes& before, const ThreadTimes& after, double least_s);

// How long CPU limits have stopped this process's control groups, summed over cores and groups.
double ReadLimited_s(const std::filesystem::path& root = "/");

struct HostReading {
  std::chrono::steady_clock::time_point when;
  CoreTimes cores;
  ThreadTimes threads;
  double ran_s = 0;      // all threads, with those that have ended
  double limited_s = 0;  // ReadLimited_s
  double page_ins = 0;   // page faults that waited for a disk
};
HostReading ReadHost(const std::set<int>& cores);

}  // namespace overlapbench
