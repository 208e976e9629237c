// Which settings cuBLASLt's workloads accept, on a device that only claims to be a GPU: what they
// exclude, and that they accept the settings of scenarios' reference runs. workloads_test.cc checks
// their results on a GPU.
#include "kernels/cublaslt.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "test_ranks.h"
#include "tests/forwarding_device.h"
#include "workload/registry.h"

namespace overlapbench {

std::vector<WorkloadSpec> CublasGemm(Machine& machine);
std::vector<WorkloadSpec> Mlp(Machine& machine);

namespace {

// Poses as an A100.
class FakeGpu : public ForwardingDevice {
 public:
  FakeGpu() : ForwardingDevice(OpenHostDevice(1)) {
    info_.multiprocessors = 108;
    info_.compute_capability = 80;
  }
  [[nodiscard]] Backend backend() const override { return Backend::kCuda; }
  [[nodiscard]] const DeviceInfo& info() const override { return info_; }

 private:
  DeviceInfo info_;
};

class CublasLtSpecs : public testing::Test {
 protected:
  using Make = std::vector<WorkloadSpec> (*)(Machine&);

  WorkloadSpec SpecOf(Make make) {
    const std::vector<WorkloadSpec> specs = make(machine_);
    EXPECT_EQ(specs.size(), 1U);
    EXPECT_EQ(specs.front().missing, "");
    return specs.front();
  }

 private:
  FakeGpu gpu_;
  Machine machine_{gpu_, TestRanks()};
};

TEST_F(CublasLtSpecs, GemmTakesALimitBelowTheGpu) {
  const WorkloadSpec spec = SpecOf(CublasGemm);
  const Settings settings = SettingsOf(spec.axes, {});
  EXPECT_EQ(spec.excluded(settings), "");
  EXPECT_EQ(spec.excluded(settings.With("sm_target", "107")), "");
  for (const auto* target : {"108", "132"})
    EXPECT_EQ(spec.excluded(settings.With("sm_target", target)),
              "sm_target must be below the GPU's 108 SMs");
}

TEST_F(CublasLtSpecs, GemmTakesTinyMatrices) {
  const WorkloadSpec spec = SpecOf(CublasGemm);
  const Settings settings = SettingsOf(spec.axes, {});
  for (const auto* n : {"16", "64"}) EXPECT_EQ(spec.excluded(settings.With("n", n)), "");
  EXPECT_EQ(spec.excluded(settings.With("n", "72")), "n must be a multiple of 16");
  EXPECT_EQ(spec.footprint(settings.With("n", "64")).device_bytes,
            std::size_t{3} * 64 * 64 * 2 + CublasLt::kWorkspaceBytes);
}

TEST_F(CublasLtSpecs, GemmNeedsAGpuWithFloat8) {
  const WorkloadSpec spec = SpecOf(CublasGemm);
  EXPECT_EQ(spec.excluded(SettingsOf(spec.axes, {{"precision", "fp8"}})),
            "precision:fp8 needs compute capability 8.9, this GPU has 8.0");
}

TEST_F(CublasLtSpecs, MlpTakesItsPlainerForms) {
  const WorkloadSpec spec = SpecOf(Mlp);
  const Settings settings = SettingsOf(spec.axes, {{"gelu", "epilogue"}, {"call", "graph"}});
  EXPECT_EQ(spec.excluded(settings), "");
  EXPECT_EQ(spec.excluded(settings.With("call", "loop")), "");
  EXPECT_EQ(spec.excluded(settings.With("gelu", "kernel")), "");
}

TEST_F(CublasLtSpecs, MlpFusesNothingInFullPrecision) {
  const WorkloadSpec spec = SpecOf(Mlp);
  const Settings fused =
      SettingsOf(spec.axes, {{"gelu", "epilogue"}, {"precision", "fp32"}, {"dim", "64"}});
  EXPECT_NE(spec.excluded(fused).find("too coarse"), std::string::npos);
  EXPECT_EQ(spec.excluded(fused.With("gelu", "kernel")), "");
}

}  // namespace
}  // namespace overlapbench
