// The libraries for GPUs that are opened at run time: the installed ones have every function of
// their tables. Needs no GPU.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <functional>
#include <string>

#include "comm/communicator.h"
#include "device/cuda/cupti.h"
#include "device/dynamic_library.h"
#include "device/error.h"
#include "kernels/cudnn_softmax.h"
#include "kernels/linear.h"

namespace overlapbench {
namespace {

// Whether a library whose path contains `name` is mapped into this process.
bool IsMapped(const std::string& name) {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);)
    if (line.find(name) != std::string::npos) return true;
  return false;
}

// These two exist, or the suite would not have been built.
TEST(GpuLibrariesTest, NcclIsOpenedByItsFirstUse) {
  EXPECT_FALSE(IsMapped("libnccl"));
  LoadNccl();
  if (!NcclUnavailable().empty()) GTEST_SKIP() << NcclUnavailable();
  EXPECT_TRUE(IsMapped("libnccl"));
  const std::string version = NcclVersion();
  ASSERT_EQ(version.find("2."), 0U) << version;
  constexpr int kFirstWithWindows = 28;
  EXPECT_EQ(NcclUnavailable({.symmetric = true}).empty(),
            std::stoi(version.substr(2)) >= kFirstWithWindows)
      << version;
}

TEST(GpuLibrariesTest, CublasLtIsOpenedByItsFirstUse) {
  EXPECT_FALSE(IsMapped("libcublasLt"));
  LoadCublasLt();
  EXPECT_TRUE(IsMapped("libcublasLt"));
}

// These may be left out of a toolkit.
TEST(GpuLibrariesTest, CuptiAndCudnnHaveAllFunctions) {
  for (const std::function<void()>& open :
       {std::function<void()>([] { const Cupti cupti; }), {[] { LoadCudnn(); }}}) {
    try {
      open();
    } catch (const Error& error) {
      EXPECT_EQ(std::string(error.what()).find(" has no "), std::string::npos) << error.what();
    }
  }
}

// Another version must not take the place of the one that the user has chosen.
TEST(GpuLibrariesTest, ABrokenLibraryIsAnError) {
  if (std::getenv("LD_LIBRARY_PATH") == nullptr) GTEST_SKIP() << "ctest sets LD_LIBRARY_PATH";
  try {
    const DynamicLibrary cudart("this test needs cudart", EMPTY_LIBRARY);
    FAIL() << "another one was opened";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("file too short"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace overlapbench
