// The load on the host's cores, by files such as the kernel's, and by threads that keep a core
// busy.
#include "device/host/host_load.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <chrono>
#include <ctime>
#include <set>
#include <string>
#include <thread>

#include "busy_cores.h"
#include "fake_root.h"

namespace overlapbench {
namespace {

class HostLoadTest : public FakeRoot {
 protected:
  CoreTimes Cores(const std::string& stat) {
    Write("proc/stat", "cpu  9 9 9 9 9 9 9 9 9 9\n" + stat + "intr 1 2 3\nirq0 9 9 9 9 9 9 9 9\n");
    return ReadCoreTimes({0, 2}, root_);
  }
  ThreadTimes Threads(const std::string& first, const std::string& second) {
    Write("proc/self/task/10/schedstat", first);
    Write("proc/self/task/11/schedstat", second);
    return ReadThreadTimes(root_);
  }
};

TEST_F(HostLoadTest, CountsTheIdleCoresAmongThoseItMayUse) {
  const CoreTimes before = Cores("cpu0 0 0 0 0 0 0 0 0 0 0\ncpu1 0 0 0 0 0\ncpu2 0 0 0 0 0\n");
  // Core 0 waits for a disk half of the time, core 2 runs a quarter of it and is stolen a quarter.
  const CoreTimes after = Cores(
      "cpu0 10 0 10 30 50 0 0 0 99 99\ncpu1 100 0 0 0 0 0 0 9\ncpu2 10 5 5 50 0 2 3 25 99 99\n");
  EXPECT_EQ(after.cores, 2);
  EXPECT_DOUBLE_EQ(IdleCores(before, after), 0.8 + 0.5);
  // Ticks take 10 ms.
  EXPECT_DOUBLE_EQ(after.idle_s - before.idle_s, 1.3);
  EXPECT_DOUBLE_EQ(after.stolen_s - before.stolen_s, 0.25);
  EXPECT_DOUBLE_EQ(after.all_s - before.all_s, 2);
}

TEST_F(HostLoadTest, CountsAllAsIdleIfTheKernelCountedNothing) {
  const CoreTimes once = Cores("cpu0 5 0 0 1 0\ncpu2 5 0 0 1 0\n");
  EXPECT_DOUBLE_EQ(IdleCores(once, once), 2);
  EXPECT_DOUBLE_EQ(IdleCores({}, ReadCoreTimes({0}, root_ / "nowhere")), 0);
}

// Rounding down to ticks of 10 ms may add or remove up to a tick per core.
TEST_F(HostLoadTest, CoreTimesAreKnownToATick) {
  EXPECT_NEAR(CoreTimesError_s(2), 0.0173, 0.0001);
  EXPECT_DOUBLE_EQ(CoreTimesError_s(8), 2 * CoreTimesError_s(2));
}

TEST_F(HostLoadTest, FindsTheThreadThatWaitedTheGreatestShare) {
  const ThreadTimes before = Threads("2000000000 1000000000 7\n", "0 9000000000 1\n");
  EXPECT_DOUBLE_EQ(before.at(10).ran_s, 2);
  EXPECT_DOUBLE_EQ(before.at(10).waited_s, 1);
  EXPECT_DOUBLE_EQ(before.at(11).waited_s, 9);
  // The first ran 1.5 s and waited 0.5; the second ran 0.1 s and waited 0.25.
  const ThreadTimes after = Threads("3500000000 1500000000 7\n", "100000000 9250000000 1\n");
  EXPECT_DOUBLE_EQ(WaitedShare(before, after, 0), 0.25 / 0.35);
  // It waited too little for what took a second.
  EXPECT_DOUBLE_EQ(WaitedShare(before, after, 1), 0.25);
  EXPECT_DOUBLE_EQ(WaitedShare(before, after, 4.75), 0.5 / 5.25);
  EXPECT_DOUBLE_EQ(WaitedShare({}, after, 0), 9.25 / 9.35) << "both began after the first reading";
  EXPECT_DOUBLE_EQ(WaitedShare(after, after, 0), 0);
  EXPECT_TRUE(ReadThreadTimes(root_ / "nowhere").empty());
}

TEST_F(HostLoadTest, SumsWhatCpuLimitsStopped) {
  EXPECT_EQ(ReadLimited_s(root_), 0);
  Write("proc/self/cgroup", "5:cpu,cpuacct:/a\n4:memory:/m\n0::/b/c\n");
  Write("sys/fs/cgroup/cpu/a/cpu.stat", "nr_throttled 9\nthrottled_time 1500000000\n");
  Write("sys/fs/cgroup/b/cpu.stat", "usage_usec 9\nthrottled_usec 250000\n");
  Write("sys/fs/cgroup/b/c/cpu.stat", "usage_usec 9\n");  // has no limit
  Write("sys/fs/cgroup/m/cpu.stat", "throttled_usec 7000000\n");
  EXPECT_DOUBLE_EQ(ReadLimited_s(root_), 1.75);
}

TEST(HostLoad, AllowedCoresAreThoseOfThisThread) {
  int tried = 0;
  for (int core = 0; core < sysconf(_SC_NPROCESSORS_CONF); ++core) {
    std::thread([&] {
      cpu_set_t one;
      CPU_ZERO(&one);
      CPU_SET(core, &one);
      if (sched_setaffinity(0, sizeof one, &one) != 0) return;  // a core that is not ours
      EXPECT_EQ(AllowedCores(), std::set{core});
      ++tried;
    }).join();
  }
  EXPECT_GE(tried, 1);
}

TEST(HostLoad, CountsTheTimeOfThisProcess) {
  const auto spent_s = [] { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; };
  while (spent_s() < 0.02) continue;
  const double before_s = spent_s();
  const double ran_s = ReadHost({}).ran_s;
  EXPECT_GE(ran_s, before_s * 0.999);
  EXPECT_LE(ran_s, spent_s() + 1e-3);
}

TEST(HostLoad, SeesThreadsThatShareCores) {
  if (ReadThreadTimes().empty()) GTEST_SKIP() << "this kernel does not count waits";
  const std::set<int> allowed = AllowedCores();
  ASSERT_FALSE(allowed.empty());
  const HostReading begin = ReadHost(allowed);
  const BusyCores busy(2 * static_cast<unsigned>(allowed.size()));
  std::this_thread::sleep_for(std::chrono::milliseconds(400));
  const HostReading end = ReadHost(allowed);
  EXPECT_GT(WaitedShare(begin.threads, end.threads, 0), 0.2);
  EXPECT_LT(IdleCores(begin.cores, end.cores), 0.3 * static_cast<double>(allowed.size()));
  EXPECT_GT(end.ran_s - begin.ran_s, 0.02);
  EXPECT_GE(end.when - begin.when, std::chrono::milliseconds(400));
}

}  // namespace
}  // namespace overlapbench
