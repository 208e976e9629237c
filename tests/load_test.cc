// What a row reports about other load, on ranks whose device reports what a test sets.
#include "fixtures/load.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <thread>

#include "busy_cores.h"
#include "device/forwarding_device.h"
#include "test_ranks.h"

namespace overlapbench {
namespace {

using std::chrono_literals::operator""ms;

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
}

TEST_F(LoadTest, CoresThatAreBusyBeforeARunAreCounted) {
  if (ReadCoreTimes(AllowedCores()).cores == 0) GTEST_SKIP() << "no /proc/stat here";
  const BusyCores busy(many_);
  const std::string text = LoadBefore(machine_);
  EXPECT_NE(text.find(" cores are idle, but the run needs "), std::string::npos) << text;
}

TEST_F(LoadTest, ThreadsThatWaitedForACoreAreACauseOfNoise) {
  if (ReadThreadWaits().empty()) GTEST_SKIP() << "this kernel does not count waits";
  const BusyCores busy(many_);
  const LoadWatch watch(machine_);
  std::this_thread::sleep_for(300ms);
  const std::string cause = watch.Cause();
  EXPECT_EQ(cause.find("a thread waited for a core "), 0U) << cause;
}

TEST_F(LoadTest, AnotherProcessOnAGpuIsACauseOfNoise) {
  device_.use.processes = {getpid()};
  EXPECT_EQ(LoadWatch(machine_).Cause().find("process"), std::string::npos);
  device_.use.processes = {getpid(), kStranger};
  EXPECT_EQ(LoadWatch(machine_).Cause(), "1 other process uses a GPU");
  device_.use.processes = {getpid(), kStranger, kStranger + 1};
  EXPECT_EQ(LoadWatch(machine_).Cause(), "2 other processes use a GPU");
}

// Copies from one GPU to another need this.
TEST_F(LoadTest, RanksOnEachOthersGpusAreNotForeignLoad) {
  const auto own = static_cast<double>(getpid());
  const auto all = TestRanks().GatherNumbers({&own, 1}, "test");
  device_.use.processes.assign(all.begin(), all.end());
  EXPECT_EQ(LoadWatch(machine_).Cause().find("process"), std::string::npos);
}

TEST_F(LoadTest, UnknownPidsUpToTheRankCountAreNotForeignLoad) {
  for (int i = 0; i < TestRanks().local_size(); ++i) device_.use.processes.push_back(kStranger + i);
  EXPECT_EQ(LoadWatch(machine_).Cause().find("process"), std::string::npos);
  device_.use.processes.push_back(kStranger - 1);
  EXPECT_EQ(LoadWatch(machine_).Cause(), "1 other process uses a GPU");
}

}  // namespace
}  // namespace overlapbench
