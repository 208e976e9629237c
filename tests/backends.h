// Runs a test once on every backend; where there is no GPU the cuda instance is skipped and says
// why.
//
//   using DeviceTest = OnEachBackend;
//   INSTANTIATE_ON_EACH_BACKEND(DeviceTest);
//   TEST_P(DeviceTest, ...) { device().Allocate(...) ... stream() ... }
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <memory>

#include "device/device.h"

namespace overlapbench {

// Longer than anything here takes, shorter than a test's own timeout.
inline constexpr std::chrono::milliseconds kPatience = std::chrono::seconds(20);

class OnEachBackend : public testing::TestWithParam<Backend> {
 protected:
  void SetUp() override {
    if (GetParam() == Backend::kCuda && VisibleGpus() < gpus_needed())
      GTEST_SKIP() << "needs " << gpus_needed() << " GPUs, " << VisibleGpus() << " visible";
    device_ = OpenDevice();
  }
  [[nodiscard]] virtual std::unique_ptr<Device> OpenDevice() const {
    return GetParam() == Backend::kHost ? OpenHostDevice(2) : OpenCudaDevice(ordinal());
  }

  Device& device() { return *device_; }
  // A stream of the test's own, created when it is first used.
  Stream& stream() {
    if (stream_ == nullptr) stream_ = device().CreateStream();
    return *stream_;
  }
  void Finish() { stream().Synchronize(kPatience, "the test"); }
  // Of this process and those that run the test with it.
  virtual int gpus_needed() const { return 1; }
  virtual int ordinal() const { return 0; }

 private:
  std::unique_ptr<Device> device_;
  std::unique_ptr<Stream> stream_;
};

}  // namespace overlapbench

#define INSTANTIATE_ON_EACH_BACKEND(suite)                                                   \
  INSTANTIATE_TEST_SUITE_P(Backends, suite, testing::Values(Backend::kHost, Backend::kCuda), \
                           [](const auto& instance) { return ToString(instance.param); })
