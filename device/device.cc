#include "device/device.h"

#include <fmt/core.h>

#include <array>

namespace overlapbench {

std::string ToString(Backend backend) { return backend == Backend::kCuda ? "cuda" : "host"; }

// NOLINTBEGIN(performance-unnecessary-value-param): streams that run the code keep it.
void Stream::EnqueueTask(std::function<void()> /*task*/, ActivityKind /*kind*/) {
  throw Error("a GPU's stream runs no host code");
}

void Stream::EnqueueBlocks(int /*blocks*/, std::function<void(int)> /*block*/) {
  throw Error("a GPU's stream runs no host code");
}
// NOLINTEND(performance-unnecessary-value-param)

std::string FormatBytes(double bytes) {
  constexpr std::array<const char*, 5> kUnits = {"B", "KiB", "MiB", "GiB", "TiB"};
  std::size_t unit = 0;
  while (bytes >= 1024 && unit + 1 < kUnits.size()) {
    bytes /= 1024;
    ++unit;
  }
  return fmt::format("{:.4g} {}", bytes, kUnits.at(unit));
}

void RequireFree(std::size_t needed_bytes, const Memory& memory, const std::string& what) {
  if (needed_bytes <= memory.free_bytes) return;
  throw Error(fmt::format("{} needs {} but {} are free: choose a smaller size", what,
                          FormatBytes(static_cast<double>(needed_bytes)),
                          FormatBytes(static_cast<double>(memory.free_bytes))));
}

std::string PartitionFault(const DeviceInfo& info, int sms) {
  const auto& [least, step, most] = info.partitions;
  if (least == 0)
    return sms == 0 ? "" : "must be 0: this device cannot limit streams to a subset of its SMs";
  const bool is_part = sms >= least && sms <= most && sms % step == 0;
  if (sms == 0 || is_part || sms == info.multiprocessors) return "";
  if (least > most) return "must be 0: this device's SMs cannot be partitioned";
  const std::string multiple = step == 1 ? "" : fmt::format("a multiple of {} ", step);
  const std::string parts =
      least == most ? std::to_string(least) : fmt::format("{}from {} to {}", multiple, least, most);
  return fmt::format("must be {}, or {}: all", parts, info.multiprocessors);
}

void RequirePartition(const DeviceInfo& info, int sms) {
  const std::string fault = PartitionFault(info, sms);
  if (!fault.empty())
    throw Error(fmt::format("a stream cannot use {} SMs: their number {}", sms, fault));
}

// Stubs for what device/cuda/ defines in a build with CUDA.
#ifndef OVERLAPBENCH_WITH_CUDA

int VisibleGpus() { return 0; }

std::string CudaUnavailable() {
  return "this build has no CUDA (no nvcc was found when it was made)";
}

std::unique_ptr<Device> OpenCudaDevice(int /*ordinal*/) { throw UsageError(CudaUnavailable()); }

#endif

}  // namespace overlapbench
