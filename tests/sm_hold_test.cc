// Work that finishes while all SMs are held used none: copies finish, kernels do not. The kernel
// that holds the SMs must not delay other work in any other way.
#include "device/cuda/sm_hold.h"

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <memory>

#include "backends.h"
#include "workload/data.h"

namespace overlapbench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr long kWords = 1L << 18;

class SmHoldTest : public testing::Test {
 protected:
  void SetUp() override {
    if (VisibleGpus() < 1) GTEST_SKIP() << "needs a GPU";
    device_ = OpenCudaDevice(0);
    words_ = device_->Allocate(kWords * sizeof(float), MemoryKind::kDevice);
    on_host_ = device_->Allocate(words_.bytes(), MemoryKind::kPinned);
    RunKernel(*device_->CreateStream());  // the first launch loads the kernel
    ASSERT_TRUE(device_->AwaitIdle(kPatience));
  }

  void CopyToHost(Stream& stream) { stream.Copy(on_host_.data(), words_.data(), words_.bytes()); }
  void RunKernel(Stream& stream) {
    FillIntegers(stream, words_.data(), kWords, Element::kFloat32, 1, 7);
  }
  bool Finishes(const std::function<void(Stream&)>& enqueue) {
    const auto alone = [](const auto& step) { step(); };
    return FinishesWithoutSms(*device_, {enqueue, alone, kPatience});
  }

  std::unique_ptr<Device> device_;
  Buffer words_;
  Buffer on_host_;
};

TEST_F(SmHoldTest, ACopyToTheHostNeedsNoSm) {
  EXPECT_TRUE(Finishes([this](Stream& stream) { CopyToHost(stream); }));
}

TEST_F(SmHoldTest, AKernelNeedsOne) {
  EXPECT_FALSE(Finishes([this](Stream& stream) { RunKernel(stream); }));
}

// It would not wait for an SM, but for the kernel that holds them: that ends by itself.
TEST_F(SmHoldTest, ACallThatWaitsForAnIdleGpuProvesNothing) {
  EXPECT_FALSE(Finishes([this](Stream& stream) {
    RunKernel(stream);
    EXPECT_TRUE(device_->AwaitIdle(kPatience));
  }));
}

// Commands come to the GPU as fast as ever: it looks at the host's memory only now and then.
TEST_F(SmHoldTest, HeldSmsDelayNoCopies) {
  const auto event = device_->CreateEvent({.timed = false});
  const auto other = device_->CreateStream();
  Clock::time_point enqueued;
  EXPECT_TRUE(Finishes([&](Stream& stream) {
    for (int i = 0; i < 64; ++i) {
      stream.Record(*event);
      other->Wait(*event);
      CopyToHost(*other);
      other->Record(*event);
      stream.Wait(*event);
    }
    enqueued = Clock::now();
  }));
  EXPECT_LT(Clock::now() - enqueued, std::chrono::milliseconds(20));
}

}  // namespace
}  // namespace overlapbench
