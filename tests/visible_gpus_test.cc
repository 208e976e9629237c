// Which answers of the driver mean that there is no GPU, and which that it failed.
#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <array>

#include "device/device.h"
#include "thrown.h"

namespace {

cudaError_t& Code() {
  static cudaError_t code = cudaSuccess;
  return code;
}

}  // namespace

// The linker puts it in the place of cudaGetDeviceCount. After an error the count means nothing.
cudaError_t CountOrFail(int* count) asm("__wrap_cudaGetDeviceCount");
cudaError_t CountOrFail(int* count) {
  *count = 4;
  return Code();
}

namespace overlapbench {
namespace {

TEST(VisibleGpus, AFailureOfTheDriverIsNotNoGpu) {
  EXPECT_EQ(VisibleGpus(), 4);
  EXPECT_EQ(CudaUnavailable(), "");
  for (const cudaError_t none :
       {cudaErrorNoDevice, cudaErrorInsufficientDriver, cudaErrorStubLibrary}) {
    Code() = none;
    EXPECT_EQ(VisibleGpus(), 0) << cudaGetErrorName(none);
    EXPECT_EQ(CudaUnavailable(), std::string("no GPU is visible: ") + cudaGetErrorString(none));
  }
  Code() = cudaErrorInitializationError;
  const std::string failure =
      "cudaGetDeviceCount failed: cudaErrorInitializationError, initialization error (does "
      "nvidia-smi work? --backend=host needs no GPU)";
  EXPECT_EQ(Thrown<Error>([] { VisibleGpus(); }), failure);
  EXPECT_EQ(CudaUnavailable(), failure);
  Code() = cudaSuccess;
}

}  // namespace
}  // namespace overlapbench
