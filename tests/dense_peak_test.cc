// The table of peaks: against the rates that NVIDIA's data sheets give for whole GPUs.
#include "device/dense_peak.h"

#include <gtest/gtest.h>

namespace overlapbench {
namespace {

DeviceInfo Gpu(int compute_capability, int multiprocessors, double most_clock_GHz) {
  DeviceInfo info;
  info.compute_capability = compute_capability;
  info.multiprocessors = multiprocessors;
  info.most_clock_GHz = most_clock_GHz;
  return info;
}

// A100 SXM: 108 SMs at 1.41 GHz; H100 SXM: 132 SMs at 1.83 GHz in tensor cores, 1.98 GHz in FP32.
TEST(DensePeak, MatchesTheDataSheet) {
  const DeviceInfo a100 = Gpu(80, 108, 1.41);
  EXPECT_NEAR(DensePeak_TFLOPs(a100, "bf16").value_or(0), 312, 1);
  EXPECT_NEAR(DensePeak_TFLOPs(a100, "fp16").value_or(0), 312, 1);
  EXPECT_NEAR(DensePeak_TFLOPs(a100, "tf32").value_or(0), 156, 1);
  EXPECT_NEAR(DensePeak_TFLOPs(a100, "fp32").value_or(0), 19.5, 0.1);
  const DeviceInfo h100 = Gpu(90, 132, 1.83);
  EXPECT_NEAR(DensePeak_TFLOPs(h100, "fp8").value_or(0), 1979, 2);
  EXPECT_NEAR(DensePeak_TFLOPs(h100, "bf16").value_or(0), 989.5, 1);
  EXPECT_NEAR(DensePeak_TFLOPs(h100, "fp16").value_or(0), 989.5, 1);
  EXPECT_NEAR(DensePeak_TFLOPs(h100, "tf32").value_or(0), 494.7, 1);
  EXPECT_NEAR(DensePeak_TFLOPs(Gpu(90, 132, 1.98), "fp32").value_or(0), 66.9, 0.1);
  EXPECT_DOUBLE_EQ(DensePeak_TFLOPs(Gpu(90, 1, 0.5), "fp32").value_or(0), 0.128);
}

TEST(DensePeak, IsUnknownForGpusMissingFromTheTable) {
  EXPECT_FALSE(DensePeak_TFLOPs(Gpu(80, 108, 1.41), "fp8"));
  EXPECT_FALSE(DensePeak_TFLOPs(Gpu(75, 40, 1.59), "fp16"));
  EXPECT_FALSE(DensePeak_TFLOPs(Gpu(90, 132, 1.83), "int8"));
  EXPECT_FALSE(DensePeak_TFLOPs(Gpu(90, 132, 0), "bf16")) << "its clock is not known";
  EXPECT_FALSE(DensePeak_TFLOPs(DeviceInfo{}, "fp32"));
}

}  // namespace
}  // namespace overlapbench
