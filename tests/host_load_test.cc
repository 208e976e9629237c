// The load on the host's cores, by files such as the kernel's, and by threads that keep a core
// busy.
#include "device/host/host_load.h"

#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <thread>

#include "busy_cores.h"
#include "fake_root.h"

namespace overlapbench {
namespace {

class HostLoadTest : public FakeRoot {
 protected:
  CoreTimes Cores(const std::string& stat) {
    Write("proc/stat", "cpu  9 9 9 9 9 9 9 9 9 9\n" + stat + "intr 1 2 3\n");
    return ReadCoreTimes({0, 2}, root_);
  }
  ThreadWaits Threads(const std::string& first, const std::string& second) {
    Write("proc/self/task/10/schedstat", first);
    Write("proc/self/task/11/schedstat", second);
    return ReadThreadWaits(root_);
  }
};

TEST_F(HostLoadTest, CountsTheIdleCoresAmongThoseItMayUse) {
  const CoreTimes before = Cores("cpu0 0 0 0 0 0 0 0 0 0 0\ncpu1 0 0 0 0 0\ncpu2 0 0 0 0 0\n");
  // Core 0 waits for a disk half of the time, core 2 runs a quarter of it and is stolen a quarter.
  const CoreTimes after =
      Cores("cpu0 10 0 10 30 50 0 0 0 99 99\ncpu1 100 0 0 0 0\ncpu2 10 5 5 50 0 2 3 25 99 99\n");
  EXPECT_EQ(after.cores, 2);
  EXPECT_DOUBLE_EQ(IdleCores(before, after), 0.8 + 0.5);
}

TEST_F(HostLoadTest, CountsAllAsIdleIfTheKernelCountedNothing) {
  const CoreTimes once = Cores("cpu0 5 0 0 1 0\ncpu2 5 0 0 1 0\n");
  EXPECT_DOUBLE_EQ(IdleCores(once, once), 2);
  EXPECT_DOUBLE_EQ(IdleCores({}, ReadCoreTimes({0}, root_ / "nowhere")), 0);
}

TEST_F(HostLoadTest, FindsTheThreadThatWaitedLongestForACore) {
  const ThreadWaits before = Threads("5 1000000000 7\n", "0 9000000000 1\n");
  EXPECT_EQ(before, (ThreadWaits{{10, 1.0}, {11, 9.0}}));
  const ThreadWaits after = Threads("5 1500000000 7\n", "0 9250000000 1\n");
  EXPECT_DOUBLE_EQ(LongestWait_s(before, after), 0.5);
  EXPECT_DOUBLE_EQ(LongestWait_s({}, after), 0);
  EXPECT_TRUE(ReadThreadWaits(root_ / "nowhere").empty());
}

TEST(HostLoad, SeesThreadsThatShareCores) {
  if (ReadThreadWaits().empty()) GTEST_SKIP() << "this kernel does not count waits";
  const std::set<int> allowed = AllowedCores();
  ASSERT_FALSE(allowed.empty());
  const BusyCores busy(2 * static_cast<unsigned>(allowed.size()));
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  const ThreadWaits waits = ReadThreadWaits();
  const CoreTimes cores = ReadCoreTimes(allowed);
  std::this_thread::sleep_for(std::chrono::milliseconds(400));
  EXPECT_GT(LongestWait_s(waits, ReadThreadWaits()), 0.1);
  EXPECT_LT(IdleCores(cores, ReadCoreTimes(allowed)), 0.2 * static_cast<double>(allowed.size()));
}

}  // namespace
}  // namespace overlapbench
