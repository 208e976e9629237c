// The message if cuDNN is not present. workloads_test checks its results.
#include "kernels/cudnn_softmax.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "benchmarks/catalog.h"
#include "test_ranks.h"

namespace overlapbench {
namespace {

std::string ReasonWithout(const std::string& file) {
  try {
    LoadCudnn(file);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(CudnnSoftmaxTest, NamesTheMissingFile) {
  const std::string reason = ReasonWithout("libno_such_cudnn.so.9");
  EXPECT_EQ(reason.find("needs cuDNN 9 (libno_such_cudnn.so.9: "), 0U) << reason;
}

TEST(CudnnSoftmaxTest, NamesTheFunctionThatALibraryLacks) {
  EXPECT_EQ(ReasonWithout("libm.so.6"),
            "needs cuDNN 9 (libm.so.6 has no cudnnGetVersion): install a newer one");
}

TEST(CudnnSoftmaxTest, IsNotAvailableOnTheHostBackend) {
  const auto device = OpenHostDevice(1);
  Machine machine{*device, TestRanks()};
  Registry registry;
  FillRegistry(registry, machine);
  EXPECT_EQ(registry.Find("SoftmaxCudnn").missing, "exists on the cuda backend only");
}

}  // namespace
}  // namespace overlapbench
