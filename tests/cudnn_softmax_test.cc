// The message if cuDNN is not present, and what it is told if it is. workloads_test checks its
// results.
#include "kernels/cudnn_softmax.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <string>

#include "benchmarks/catalog.h"
#include "fake_cudnn.h"
#include "test_ranks.h"

namespace overlapbench {
namespace {

std::string ReasonOf(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

std::string ReasonWithout(const std::string& file) {
  return ReasonOf([&] { LoadCudnn(file); });
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

class FakeCudnnTest : public testing::Test {
 protected:
  void TearDown() override {
    EXPECT_EQ(fake_.handles, 0);
    EXPECT_EQ(fake_.tensors, 0);
    fake_ = {};
  }
  void Run(long rows, long columns, Element element) {
    const CudnnSoftmax softmax(LoadCudnn(), rows, columns, element);
    EXPECT_EQ(fake_.handles, 1);
    EXPECT_EQ(fake_.tensors, 1);
    softmax.Enqueue(*stream_, &input_, &output_);
  }

  FakeCudnn& fake_ = TheFakeCudnn();
  std::unique_ptr<Device> device_ = OpenHostDevice(1);
  std::unique_ptr<Stream> stream_ = device_->CreateStream({});
  float input_ = 0;
  float output_ = 0;
};

TEST_F(FakeCudnnTest, HasAVersion) { EXPECT_EQ(CudnnVersion(), "9.19.2"); }

TEST_F(FakeCudnnTest, IsToldOfRowsOfChannels) {
  fake_.stream = &fake_;
  Run(12, 34, Element::kFloat32);
  EXPECT_EQ(fake_.stream, stream_->native());
  EXPECT_EQ(fake_.format, 0) << "NCHW";
  EXPECT_EQ(fake_.n, 12);
  EXPECT_EQ(fake_.c, 34);
  EXPECT_EQ(fake_.h, 1);
  EXPECT_EQ(fake_.w, 1);
  EXPECT_EQ(fake_.algorithm, 1) << "accurate";
  EXPECT_EQ(fake_.alpha, 1);
  EXPECT_EQ(fake_.beta, 0);
  EXPECT_EQ(fake_.input, &input_);
  EXPECT_EQ(fake_.output, &output_);
}

TEST_F(FakeCudnnTest, IsToldTheTypeByItsOwnNumber) {
  Run(1, 2, Element::kFloat32);
  EXPECT_EQ(fake_.type, 0);
  Run(1, 2, Element::kFloat16);
  EXPECT_EQ(fake_.type, 2);
  Run(1, 2, Element::kBfloat16);
  EXPECT_EQ(fake_.type, 9);
  EXPECT_EQ(ReasonOf([&] { Run(1, 2, Element::kInt32); }),
            "cuDNN's softmax is not offered for int32");
}

TEST_F(FakeCudnnTest, GoesOverChannelsWhereThatIsFaster) {
  Run(1, 3072, Element::kFloat32);
  EXPECT_EQ(fake_.mode, 1);
  Run(1, 3073, Element::kFloat32);
  EXPECT_EQ(fake_.mode, 0);
}

TEST_F(FakeCudnnTest, GetsNoMoreElementsThanItCounts) {
  Run(1, 2147483647, Element::kFloat32);
  EXPECT_EQ(fake_.c, 2147483647);
  EXPECT_EQ(ReasonOf([&] { Run(1L << 15, 1L << 16, Element::kFloat32); }),
            "cuDNN does not support a tensor of 2147483648 elements");
}

TEST_F(FakeCudnnTest, EveryFailureIsAnError) {
  for (const std::string function :
       {"cudnnCreate", "cudnnCreateTensorDescriptor", "cudnnSetTensor4dDescriptor",
        "cudnnSetStream", "cudnnSoftmaxForward"}) {
    fake_.failing = function;
    EXPECT_EQ(ReasonOf([&] { Run(1, 2, Element::kFloat32); }), function + " failed: SEVEN");
  }
}

}  // namespace
}  // namespace overlapbench
