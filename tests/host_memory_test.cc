// The host's free memory, from files like the Linux kernel's.
#include "device/host/host_memory.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "fake_root.h"

namespace overlapbench {
namespace {

using std::filesystem::path;

class HostMemoryTest : public FakeRoot {
 protected:
  void SetUp() override {
    FakeRoot::SetUp();
    Write("proc/meminfo",
          "MemTotal:  8 kB\nMemFree:  1 kB\nMemAvailable:  6 kB\nHugePages_Total: 0\n");
  }

  void WriteGroup(const path& group, const std::string& limit, int used, int inactive) {
    Write(group / "memory.max", limit + "\n");
    Write(group / "memory.current", std::to_string(used) + "\n");
    Write(group / "memory.stat", "anon 7\ninactive_file " + std::to_string(inactive) + "\n");
  }
  void Expect(std::size_t free_bytes, std::size_t total_bytes) {
    const Memory memory = HostMemory(root_);
    EXPECT_EQ(memory.free_bytes, free_bytes);
    EXPECT_EQ(memory.total_bytes, total_bytes);
  }
};

TEST_F(HostMemoryTest, IsTheMachinesMemoryWithoutACgroup) { Expect(6 << 10, 8 << 10); }

TEST_F(HostMemoryTest, IsTheMachinesMemoryIfTheCgroupHasNoLimit) {
  Write("proc/self/cgroup", "0::/a\n");
  WriteGroup("sys/fs/cgroup/a", "max", 100, 0);
  Expect(6 << 10, 8 << 10);
}

TEST_F(HostMemoryTest, IsTheFreeMemoryOfTheCgroup) {
  Write("proc/self/cgroup", "0::/a\n");
  WriteGroup("sys/fs/cgroup/a", "4096", 1000, 200);
  Expect(4096 - 800, 4096);
}

TEST_F(HostMemoryTest, IsZeroIfTheCgroupExceedsItsLimit) {
  Write("proc/self/cgroup", "0::/a\n");
  WriteGroup("sys/fs/cgroup/a", "4096", 5000, 200);
  Expect(0, 4096);
}

TEST_F(HostMemoryTest, IgnoresAGroupThatDoesNotSayHowMuchItUses) {
  Write("proc/self/cgroup", "0::/a/b\n");
  WriteGroup("sys/fs/cgroup/a", "3000", 500, 0);
  Write("sys/fs/cgroup/a/b/memory.max", "1000\n");
  Expect(2500, 3000);
}

TEST_F(HostMemoryTest, IsTheFreeMemoryOfTheTightestNestedCgroup) {
  Write("proc/self/cgroup", "0::/a/b/c\n");
  WriteGroup("sys/fs/cgroup/a", "3000", 500, 0);
  WriteGroup("sys/fs/cgroup/a/b", "5000", 100, 0);
  WriteGroup("sys/fs/cgroup/a/b/c", "max", 0, 0);
  Expect(2500, 3000);
}

TEST_F(HostMemoryTest, ReadsCgroupVersion1) {
  Write("proc/self/cgroup", "5:cpu,cpuacct:/a\n4:memory:/a:b\n0::/\n");
  const path group = "sys/fs/cgroup/memory/a:b";
  Write(group / "memory.limit_in_bytes", "4000\n");
  Write(group / "memory.usage_in_bytes", "1500\n");
  Write(group / "memory.stat", "inactive_file 1\ntotal_inactive_file 500\n");
  Write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  Write("sys/fs/cgroup/memory/memory.usage_in_bytes", "1\n");
  Expect(3000, 4000);
}

TEST_F(HostMemoryTest, FindsTheCgroupInAContainerThatCannotSeeItsPath) {
  Write("proc/self/cgroup", "0::/system.slice/docker-1234.scope\n");
  WriteGroup("sys/fs/cgroup", "4096", 96, 0);
  Expect(4000, 4096);
}

TEST(HostMemory, IsPositiveOnThisMachine) {
  const Memory memory = HostMemory();
  EXPECT_GT(memory.free_bytes, 0U);
  EXPECT_LE(memory.free_bytes, memory.total_bytes);
}

}  // namespace
}  // namespace overlapbench
