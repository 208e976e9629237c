#include "device/dense_peak.h"

#include <algorithm>
#include <array>

namespace overlapbench {
namespace {

struct Peak {
  int compute_capability;
  std::string_view precision;
  double operations;
};
// NVIDIA A100 Tensor Core GPU Architecture (2020), table 2; NVIDIA H100 Tensor Core GPU
// Architecture (2022), table 2: their peak rates over SMs and boost clock.
constexpr std::array<Peak, 9> kPeaks = {{
    {80, "bf16", 2048},
    {80, "fp16", 2048},
    {80, "tf32", 1024},
    {80, "fp32", 128},
    {90, "fp8", 8192},
    {90, "bf16", 4096},
    {90, "fp16", 4096},
    {90, "tf32", 2048},
    {90, "fp32", 256},
}};

}  // namespace

std::optional<double> OperationsPerClock(int compute_capability, std::string_view precision) {
  const auto* found = std::ranges::find_if(kPeaks, [&](const Peak& peak) {
    return peak.compute_capability == compute_capability && peak.precision == precision;
  });
  return found == kPeaks.end() ? std::nullopt : std::optional(found->operations);
}

std::optional<double> DensePeak_TFLOPs(const DeviceInfo& info, std::string_view precision) {
  constexpr double kTFLOPsFromGFLOPs = 1e-3;
  const auto operations = OperationsPerClock(info.compute_capability, precision);
  if (!operations || info.most_clock_GHz <= 0) return std::nullopt;
  return *operations * info.multiprocessors * info.most_clock_GHz * kTFLOPsFromGFLOPs;
}

}  // namespace overlapbench
