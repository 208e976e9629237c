// Which variables of NCCL's make its rows invalid.
#include "comm/nccl_environment.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

namespace overlapbench {
namespace {

class NcclEnvironmentTest : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override { UnsetAll(); }
  void TearDown() override { UnsetAll(); }

 private:
  static void UnsetAll() {
    for (const char* name :
         {"NCCL_MIN_CTAS", "NCCL_MAX_CTAS", "NCCL_MIN_NCHANNELS", "NCCL_MAX_NCHANNELS",
          "NCCL_MIN_P2P_NCHANNELS", "NCCL_MAX_P2P_NCHANNELS", "NCCL_SYM_CTAS", "NCCL_CTA_POLICY",
          "NCCL_CGA_CLUSTER_SIZE", "NCCL_ALGO", "NCCL_DEBUG"})
      unsetenv(name);
  }
};
INSTANTIATE_TEST_SUITE_P(Each, NcclEnvironmentTest,
                         testing::Values("NCCL_MIN_CTAS", "NCCL_MAX_CTAS", "NCCL_MIN_NCHANNELS",
                                         "NCCL_MAX_NCHANNELS", "NCCL_MIN_P2P_NCHANNELS",
                                         "NCCL_MAX_P2P_NCHANNELS", "NCCL_SYM_CTAS",
                                         "NCCL_CTA_POLICY", "NCCL_CGA_CLUSTER_SIZE"));

TEST_P(NcclEnvironmentTest, AVariableThatDecidesForTheRowIsNamedWithItsValue) {
  for (const std::string value : {"8", "0", "-1", "x"}) {
    setenv(GetParam(), value.c_str(), 1);
    EXPECT_EQ(NcclOverride(), GetParam() + ("=" + value) +
                                  " in the environment overrides what the row's name says; unset "
                                  "it, and use --axis transport or comm_ctas");
  }
}

TEST_P(NcclEnvironmentTest, AnEmptyOrOtherVariableDecidesNothing) {
  EXPECT_EQ(NcclOverride(), "");
  setenv(GetParam(), "", 1);
  setenv("NCCL_ALGO", "Ring", 1);  // a row's name says nothing of the algorithm
  setenv("NCCL_DEBUG", "INFO", 1);
  EXPECT_EQ(NcclOverride(), "");
}

TEST_F(NcclEnvironmentTest, AnEmptyVariableHidesNoOther) {
  setenv("NCCL_MIN_CTAS", "", 1);
  setenv("NCCL_CGA_CLUSTER_SIZE", "2", 1);
  EXPECT_EQ(NcclOverride().substr(0, 24), "NCCL_CGA_CLUSTER_SIZE=2 ");
}

}  // namespace
}  // namespace overlapbench
