// What a row reports about other load, on ranks whose device reports what a test sets.
#include "fixtures/load.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "busy_cores.h"
#include "test_ranks.h"
#include "tests/forwarding_device.h"

namespace overlapbench {
namespace {

using std::chrono_literals::operator""ms;

// The ranks may use two cores, however many there are: what is idle on each core adds up.
const bool kHasTwoCores = [] {
  cpu_set_t two;
  CPU_ZERO(&two);
  for (const int core : AllowedCores())
    if (CPU_COUNT(&two) < 2) CPU_SET(core, &two);
  return sched_setaffinity(0, sizeof(two), &two) == 0;
}();

// Above any process id of Linux.
constexpr long kStranger = 1L << 30;

// The last rank's device reports `use`; the others' are idle.
class UsedDevice : public ForwardingDevice {
 public:
  UsedDevice() : ForwardingDevice(OpenHostDevice(1)) {}
  [[nodiscard]] DeviceUse Use() const override {
    return TestRanks().rank() == TestRanks().size() - 1 ? use : DeviceUse();
  }

  DeviceUse use;
};

class LoadTest : public testing::Test {
 protected:
  UsedDevice device_;
  Machine machine_{device_, TestRanks()};
  unsigned many_ = 4 * static_cast<unsigned>(AllowedCores().size());
};

TEST_F(LoadTest, AGpuThatIsBusyBeforeARunIsNamed) {
  device_.use.busy_pct = 37;
  EXPECT_EQ(LoadBefore(machine_), "another process kept the GPU of rank " +
                                      std::to_string(TestRanks().size() - 1) +
                                      " busy for 37 % of the time");
  device_.use.busy_pct = 10;
  EXPECT_EQ(LoadBefore(machine_).find("GPU"), std::string::npos) << "that much is no load";
}

TEST_F(LoadTest, CoresThatAreBusyBeforeARunAreCounted) {
  if (ReadCoreTimes(AllowedCores()).cores == 0) GTEST_SKIP() << "no /proc/stat here";
  const BusyCores busy(many_);
  const std::string text = LoadBefore(machine_);
  EXPECT_NE(text.find(" cores are idle, but the run needs "), std::string::npos) << text;
}

// Rank 0 needs more cores than it may use; or all of them together do.
TEST_F(LoadTest, ARunThatNeedsMoreCoresThanItMayUseIsNamed) {
  const std::size_t cores = AllowedCores().size();
  if (ReadCoreTimes(AllowedCores()).cores == 0) GTEST_SKIP() << "no /proc/stat here";
  const auto device = OpenHostDevice(static_cast<int>(cores) + 1);
  const std::string text = LoadBefore({*device, TestRanks()});
  const std::size_t needed = (cores + 1) * static_cast<std::size_t>(TestRanks().local_size());
  const std::string needs = "the run needs " + std::to_string(needed);
  EXPECT_NE(text.find(needs), std::string::npos) << text;
}

TEST(Shortage, IsOfIdleOrOfAllowedCores) {
  EXPECT_EQ(ShortageOf({.idle = 2, .needed = 2, .allowed = 4}), "");
  EXPECT_EQ(ShortageOf({.idle = 4, .needed = 5, .allowed = 5}), "") << "others may take a fifth";
  EXPECT_EQ(ShortageOf({.idle = 3.9, .needed = 5, .allowed = 8}),
            "3.9 cores are idle, but the run needs 5");
  EXPECT_EQ(ShortageOf({.idle = 4, .needed = 8, .allowed = 4}),
            "the run needs 8 cores, but may use only 4");
  EXPECT_EQ(ShortageOf({.idle = 3, .needed = 8, .allowed = 4}),
            "3.0 cores are idle, but the run needs 8");
  EXPECT_EQ(ShortageOf({.idle = 4, .needed = 4, .allowed = 4}), "");
  EXPECT_EQ(ShortageOf({.idle = 0, .needed = 8, .allowed = 0}), "") << "nothing is known";
}

// Threads of the ranks keep all cores busy, apart from what other programs get.
TEST_F(LoadTest, CoresThatRanksUseAreNotForeign) {
  const std::set<int> allowed = AllowedCores();
  if (ReadThreadTimes().empty()) GTEST_SKIP() << "this kernel does not count waits";
  LoadWatch watch(machine_);
  const BusyCores busy(many_);
  const HostReading begin = ReadHost(allowed);
  watch.BeginSamples();
  std::this_thread::sleep_for(500ms);
  const RowLoad load = watch.Read(0, 1);
  const HostReading end = ReadHost(allowed);
  const double own_s = end.ran_s - begin.ran_s;
  double ranks_s = 0;
  for (const double ran_s : TestRanks().GatherNumbers({&own_s, 1}, "test")) ranks_s += ran_s;
  const double elapsed_s = std::chrono::duration<double>(end.when - begin.when).count();
  EXPECT_GT(load.waited_share, 0.3);
  EXPECT_NEAR(load.foreign_cores, static_cast<double>(allowed.size()) - ranks_s / elapsed_s, 0.2);
  EXPECT_LE(load.lost_share, load.foreign_cores);
}

// Another process keeps a core busy, and so do other programs.
TEST_F(LoadTest, CoresThatAnotherProcessUsesAreForeign) {
  const std::set<int> allowed = AllowedCores();
  if (ReadCoreTimes(allowed).cores == 0) GTEST_SKIP() << "no /proc/stat here";
  const pid_t other = fork();
  if (other == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    while (true) {
    }
  }
  LoadWatch watch(machine_);
  watch.BeginSamples();
  std::this_thread::sleep_for(500ms);
  const RowLoad load = watch.Read(0.5, 1);
  kill(other, SIGKILL);
  waitpid(other, nullptr, 0);
  EXPECT_GT(load.foreign_cores, 0.5);
  EXPECT_GE(load.limited_share, 0);
}

TEST_F(LoadTest, AnotherProcessOnAGpuIsCounted) {
  const auto others = [&](const std::vector<long>& processes) {
    device_.use.processes = processes;
    return LoadWatch(machine_).Read(1, 1).gpu_processes;
  };
  EXPECT_EQ(others({getpid()}), 0);
  EXPECT_EQ(others({getpid(), kStranger}), 1);
  EXPECT_EQ(others({getpid(), kStranger, kStranger + 1}), 2);
}

// Copies from one GPU to another need this.
TEST_F(LoadTest, RanksOnEachOthersGpusAreNotForeignLoad) {
  const auto own = static_cast<double>(getpid());
  const auto all = TestRanks().GatherNumbers({&own, 1}, "test");
  device_.use.processes.assign(all.begin(), all.end());
  EXPECT_EQ(LoadWatch(machine_).Read(1, 1).gpu_processes, 0);
}

TEST_F(LoadTest, UnknownPidsUpToTheRankCountAreNotForeignLoad) {
  for (int i = 0; i < TestRanks().local_size(); ++i) device_.use.processes.push_back(kStranger + i);
  EXPECT_EQ(LoadWatch(machine_).Read(1, 1).gpu_processes, 0);
  device_.use.processes.push_back(kStranger - 1);
  EXPECT_EQ(LoadWatch(machine_).Read(1, 1).gpu_processes, 1);
}

// ---- What ranks lose, from what the kernel counted.

// Two cores for a second. The ranks ran for 1.2 s of it.
constexpr CoreUse kUse{.elapsed_s = 1, .cores = 2, .idle_s = 0, .stolen_s = 0, .ran_s = 1.2};
constexpr RowLoad kWaited{.waited_share = 0.9};

CoreUse Idle(double idle_s) {
  CoreUse use = kUse;
  use.idle_s = idle_s;
  return use;
}

TEST(RowLoad, OthersUsedWhatWasNeitherIdleNorUsedByRanks) {
  const RowLoad load = WithUse(kWaited, Idle(0.1));
  EXPECT_DOUBLE_EQ(load.foreign_cores, 0.7);
  EXPECT_DOUBLE_EQ(load.lost_share, 0.7 - CoreTimesError_s(2));
  EXPECT_DOUBLE_EQ(load.waited_share, 0.9);
  EXPECT_DOUBLE_EQ(WithUse(kWaited, Idle(0.9)).foreign_cores, 0) << "never negative";
}

TEST(RowLoad, RanksThatShareCoresAddUpWhatTheyRan) {
  const CoreUse use =
      SumOf({{.elapsed_s = 1, .cores = 2, .idle_s = 0.25, .stolen_s = 0.125, .ran_s = 0.5},
             {.elapsed_s = 1.5, .cores = 2, .idle_s = 0.75, .stolen_s = 0.375, .ran_s = 0.75}});
  EXPECT_DOUBLE_EQ(use.elapsed_s, 1.25);
  EXPECT_DOUBLE_EQ(use.cores, 2);
  EXPECT_DOUBLE_EQ(use.idle_s, 0.5);
  EXPECT_DOUBLE_EQ(use.stolen_s, 0.25);
  EXPECT_DOUBLE_EQ(use.ran_s, 1.25);
}

TEST(RowLoad, NoMoreIsLostThanAThreadWaited) {
  EXPECT_DOUBLE_EQ(WithUse({.waited_share = 0.2}, Idle(0)).lost_share, 0.2);
  EXPECT_DOUBLE_EQ(WithUse({.waited_share = 0}, Idle(0)).lost_share, 0);
}

// Readings two seconds apart.
std::pair<HostReading, HostReading> Readings() {
  HostReading before;
  before.cores = {.cores = 4, .idle_s = 10, .stolen_s = 1};
  before.threads = {{1, {.ran_s = 1, .waited_s = 1}}};
  before.ran_s = 5;
  before.limited_s = 1;
  before.page_ins = 10;
  HostReading after = before;
  after.when += std::chrono::seconds(2);
  after.cores = {.cores = 4, .idle_s = 13, .stolen_s = 1.5};
  after.threads = {{1, {.ran_s = 4, .waited_s = 2}}};
  after.ran_s = 9;
  after.limited_s = 1.5;
  after.page_ins = 16;
  return {before, after};
}

TEST(RowLoad, IsWhatHappenedBetweenTwoReadings) {
  const auto [before, after] = Readings();
  const RowLoad load = LoadBetween(before, after, 0, 3);
  EXPECT_DOUBLE_EQ(load.waited_share, 1.0 / 4);
  EXPECT_DOUBLE_EQ(load.limited_share, 0.5 / 2);
  EXPECT_DOUBLE_EQ(load.page_ins, 6.0 / 3);
  EXPECT_DOUBLE_EQ(LoadBetween(before, after, 9, 0).waited_share, 1.0 / 10) << "it ran for as long";
  EXPECT_DOUBLE_EQ(LoadBetween(before, after, 9, 0).page_ins, 6);
  const CoreUse use = UseBetween(before, after);
  EXPECT_DOUBLE_EQ(use.elapsed_s, 2);
  EXPECT_DOUBLE_EQ(use.cores, 4);
  EXPECT_DOUBLE_EQ(use.idle_s, 3);
  EXPECT_DOUBLE_EQ(use.stolen_s, 0.5);
  EXPECT_DOUBLE_EQ(use.ran_s, 4);
}

TEST(RowLoad, IsReportedAsARowsCounters) {
  const RowLoad load{.waited_share = 0.25, .foreign_cores = 1.5, .gpu_processes = 2};
  Counters counters;
  ReportLoad(load, Backend::kHost, counters);
  EXPECT_EQ(counters.size(), 2U);
  EXPECT_EQ(counters.at("core_wait_pct"), 25);
  EXPECT_EQ(counters.at("foreign_cores"), 1.5);
  ReportLoad(load, Backend::kCuda, counters);
  EXPECT_EQ(counters.at("foreign_gpu_processes"), 2);
}

TEST(RowLoad, OneCoreCountsToo) {
  const CoreUse one{.elapsed_s = 2, .cores = 1, .idle_s = 0.5, .stolen_s = 0.75, .ran_s = 0.5};
  const RowLoad load = WithUse(kWaited, one);
  EXPECT_DOUBLE_EQ(load.foreign_cores, 0.25 / 2);
  EXPECT_DOUBLE_EQ(load.lost_share, (0.25 - CoreTimesError_s(1)) / 2);
  EXPECT_DOUBLE_EQ(load.stolen_share, (0.75 - CoreTimesError_s(1)) / 1.5);
}

// Threads of the ranks waited for each other.
TEST(RowLoad, WaitingWithoutOthersLosesNothing) {
  CoreUse use = kUse;
  use.ran_s = 2;
  const RowLoad load = WithUse(kWaited, use);
  EXPECT_DOUBLE_EQ(load.foreign_cores, 0);
  EXPECT_DOUBLE_EQ(load.lost_share, 0);
}

TEST(RowLoad, WhatTicksLeaveOpenIsNotHeldAgainstOthers) {
  CoreUse use = kUse;
  use.ran_s = 2 - CoreTimesError_s(2);
  EXPECT_NEAR(WithUse(kWaited, use).lost_share, 0, 1e-12);
}

TEST(RowLoad, StolenTimeIsAShareOfBusyTimeAndNobodyElses) {
  CoreUse use = Idle(1);
  use.stolen_s = 0.5;
  use.ran_s = 0.5;
  const RowLoad load = WithUse(kWaited, use);
  EXPECT_DOUBLE_EQ(load.foreign_cores, 0);
  EXPECT_DOUBLE_EQ(load.stolen_share, 0.5 - CoreTimesError_s(2));
  EXPECT_DOUBLE_EQ(WithUse(kWaited, kUse).stolen_share, 0);
}

TEST(RowLoad, IsUnknownWithoutTheKernelsCounters) {
  constexpr RowLoad kUnknown{
      .waited_share = 0.9, .foreign_cores = 0.125, .lost_share = 0.25, .stolen_share = 0.5};
  for (const CoreUse& use : {CoreUse{.elapsed_s = 1, .ran_s = 1}, CoreUse{.cores = 2}}) {
    const RowLoad load = WithUse(kUnknown, use);
    EXPECT_DOUBLE_EQ(load.foreign_cores, 0.125) << "as it was";
    EXPECT_DOUBLE_EQ(load.lost_share, 0.25);
    EXPECT_DOUBLE_EQ(load.stolen_share, 0.5);
    EXPECT_DOUBLE_EQ(load.waited_share, 0.9);
  }
}

}  // namespace
}  // namespace overlapbench
