// NCCL's log: its variables are set only meanwhile, what is written to its file is read, and a
// user's own settings stay.
#include "comm/nccl_log.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cstdlib>
#include <fstream>
#include <string>

namespace overlapbench {
namespace {

TEST(NcclLogTest, ReadsWhatIsWrittenToTheFileThatNcclIsGiven) {
  {
    const NcclLog log;
    EXPECT_STREQ(std::getenv("NCCL_DEBUG"), "INFO");
    EXPECT_STREQ(std::getenv("NCCL_DEBUG_SUBSYS"), "INIT");
    std::ofstream(std::getenv("NCCL_DEBUG_FILE"))
        << "vm:7:7 [0] NCCL INFO Using network Socket\nvm:7:7 [0] NCCL INFO more\n";
    EXPECT_EQ(NetworkIn(log.text()), "Socket");
  }
  EXPECT_EQ(std::getenv("NCCL_DEBUG"), nullptr);
  EXPECT_EQ(std::getenv("NCCL_DEBUG_SUBSYS"), nullptr);
  EXPECT_EQ(std::getenv("NCCL_DEBUG_FILE"), nullptr);
}

TEST(NcclLogTest, LeavesTheUsersSettingsAlone) {
  setenv("NCCL_DEBUG", "WARN", 1);
  {
    const NcclLog log;
    EXPECT_STREQ(std::getenv("NCCL_DEBUG"), "WARN");
    EXPECT_EQ(std::getenv("NCCL_DEBUG_FILE"), nullptr);
    EXPECT_EQ(log.text(), "");
  }
  EXPECT_STREQ(std::getenv("NCCL_DEBUG"), "WARN");
  unsetenv("NCCL_DEBUG");
}

TEST(NcclLogTest, SetsNothingWithoutAFile) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none{.rlim_cur = 0, .rlim_max = before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  {
    const NcclLog log;
    EXPECT_EQ(std::getenv("NCCL_DEBUG"), nullptr);
    EXPECT_EQ(log.text(), "");
  }
  EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
}

TEST(NcclLogTest, NamesNoNetworkWhereTheLogNamesNone) {
  EXPECT_EQ(NetworkIn(""), "");
  EXPECT_EQ(NetworkIn("NCCL INFO NET/Plugin: none\n"), "");
  EXPECT_EQ(NetworkIn("NCCL INFO Using network IB"), "IB");
}

}  // namespace
}  // namespace overlapbench
