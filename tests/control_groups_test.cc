// The quota of cores' time that control groups set, from files like the Linux kernel's.
#include "device/host/control_groups.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "device/host/host_load.h"
#include "fake_root.h"

namespace overlapbench {
namespace {

class CoreQuotaTest : public FakeRoot {};

TEST_F(CoreQuotaTest, IsNoneWithoutGroupsOrLimits) {
  EXPECT_EQ(CoreQuota(root_), std::nullopt);
  Write("proc/self/cgroup", "0::/a\n");
  Write("sys/fs/cgroup/a/cpu.max", "max 100000\n");
  EXPECT_EQ(CoreQuota(root_), std::nullopt);
}

TEST_F(CoreQuotaTest, IsTheLeastOfAGroupAndItsAncestors) {
  Write("proc/self/cgroup", "0::/a/b\n");
  Write("sys/fs/cgroup/a/b/cpu.max", "800000 200000\n");
  EXPECT_EQ(CoreQuota(root_), 4);
  Write("sys/fs/cgroup/a/cpu.max", "150000 100000\n");
  EXPECT_EQ(CoreQuota(root_), 1.5);
}

TEST_F(CoreQuotaTest, NeedsAQuotaAndAPeriodAbove0) {
  Write("proc/self/cgroup", "4:cpu:/job\n0::/a\n");
  const std::string job = "sys/fs/cgroup/cpu/job/cpu.cfs_";
  Write(job + "quota_us", "300000\n");
  EXPECT_EQ(CoreQuota(root_), std::nullopt) << "no period";
  Write(job + "period_us", "0\n");
  EXPECT_EQ(CoreQuota(root_), std::nullopt);
  Write("sys/fs/cgroup/a/cpu.max", "0 100000\n");
  EXPECT_EQ(CoreQuota(root_), std::nullopt);
  Write("sys/fs/cgroup/a/cpu.max", "1 1\n");
  EXPECT_EQ(CoreQuota(root_), 1);
}

// A container sees its own group as the root.
TEST_F(CoreQuotaTest, IsThatOfTheRootGroupInAContainer) {
  Write("proc/self/cgroup", "0::/docker/4711\n");
  Write("sys/fs/cgroup/cpu.max", "50000 100000\n");
  EXPECT_EQ(CoreQuota(root_), 0.5);
}

TEST_F(CoreQuotaTest, IsThatOfVersion1) {
  Write("proc/self/cgroup", "5:cpuset:/\n4:cpu,cpuacct:/job\n3:memory:/job\n");
  Write("sys/fs/cgroup/cpu/job/cpu.cfs_quota_us", "-1\n");
  Write("sys/fs/cgroup/cpu/job/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(CoreQuota(root_), std::nullopt);
  Write("sys/fs/cgroup/cpu/job/cpu.cfs_quota_us", "300000\n");
  EXPECT_EQ(CoreQuota(root_), 3);
}

TEST_F(CoreQuotaTest, IsOfNoOtherController) {
  Write("proc/self/cgroup", "5:cpuset:/job\n");
  Write("sys/fs/cgroup/cpu/job/cpu.cfs_quota_us", "300000\n");
  Write("sys/fs/cgroup/cpu/job/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(CoreQuota(root_), std::nullopt);
}

}  // namespace
}  // namespace overlapbench
