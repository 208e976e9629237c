// An older NCCL that the process has loaded before the suite needs one, as PyTorch may: the suite
// uses it, and says what it cannot do.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include "comm/communicator.h"

namespace overlapbench {
namespace {

TEST(OldNcclTest, ALoadedLibraryIsUsedWithoutWindows) {
  ASSERT_NE(dlopen(FAKE_NCCL_LIBRARY, RTLD_NOW | RTLD_LOCAL), nullptr) << dlerror();
  EXPECT_EQ(NcclVersion(), "2.26.5");
  const std::string reason = "copy engines and symmetric kernels need NCCL 2.28, this is 2.26.5";
  EXPECT_EQ(NcclUnavailable({.symmetric = true}), reason);
  EXPECT_EQ(NcclUnavailable({.symmetric = true, .copy_engines = true}), reason);
  EXPECT_EQ(NcclUnavailable({.ctas = 8}), "");
  EXPECT_EQ(NcclUnavailable(), "");
}

}  // namespace
}  // namespace overlapbench
