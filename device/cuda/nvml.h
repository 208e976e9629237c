// Nvml: what the management library knows of one GPU, if the machine has the library.
//
// libnvidia-ml.so.1 comes with the driver and is opened at run time; without it every answer is
// empty. Only the stable C entry points used here are declared (NVIDIA NVML API reference), so that
// building needs no NVML header.
#pragma once

#include <map>
#include <string>

namespace overlapbench {

class Nvml {
 public:
  // `pci_bus_id` as cudaDeviceGetPCIBusId gives it.
  explicit Nvml(const std::string& pci_bus_id);
  ~Nvml();
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  // Why clocks were held down by heat or hardware since the last call; "" when they were not.
  std::string ThrottleReason();
  // driver_version, sm_clock_MHz, memory_clock_MHz, nvlinks_active.
  [[nodiscard]] std::map<std::string, std::string> Facts() const;

 private:
  template <class Function>
  [[nodiscard]] Function Find(const char* symbol) const;
  [[nodiscard]] unsigned long long ThermalViolation_ns() const;

  void* library_ = nullptr;
  void* gpu_ = nullptr;
  unsigned long long thermal_violation_ns_ = 0;
};

}  // namespace overlapbench
