// Nvml: queries NVIDIA's management library about one GPU, on machines that have the library.
//
// libnvidia-ml.so.1 comes with the driver. Without the library, or if it does not know this GPU,
// every result is empty.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "device/energy_meter.h"
#include "device/gauge_watch.h"
#include "device/throttle_watch.h"

namespace overlapbench {

class Nvml : public ThrottleSource, public GaugeSource {
 public:
  // `pci_bus_id` as cudaDeviceGetPCIBusId returns it.
  explicit Nvml(const std::string& pci_bus_id);
  ~Nvml() override;
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  // Whether the library is there and knows the GPU.
  [[nodiscard]] bool available() const;

  // Heat and hardware protection. The software power cap is left out: a GEMM at full rate reaches
  // it by design, alone and overlapped alike.
  [[nodiscard]] std::optional<std::set<std::string>> Reasons() const override;
  [[nodiscard]] std::optional<std::chrono::nanoseconds> ThermalViolation() const override;

  // Power is instantaneous; nvmlDeviceGetPowerUsage returns a mean over a second on most GPUs.
  [[nodiscard]] GaugeLook LookAtGauges() const override;

  // Since the driver was loaded. Throws Error where that is not known of this GPU alone.
  [[nodiscard]] double TotalEnergy_J() const;

  // Leaves out processes that are idle, if the driver knows what each does: those that used no SM
  // in the last two seconds. In a container, NVML may not list the processes of others.
  [[nodiscard]] DeviceUse Use() const;

  // NVLinks that are up; 0 without any.
  [[nodiscard]] int active_links() const;

  // driver_version, sm_clock_MHz, memory_clock_MHz, nvlinks_active.
  [[nodiscard]] std::map<std::string, std::string> Facts() const;

 private:
  struct Library;
  [[nodiscard]] std::set<long> IdleProcesses(const std::vector<long>& all) const;
  std::unique_ptr<const Library> library_;
};

// The energy of a GPU with its memory. Instances of a GPU in MIG mode have no counters of their
// own.
class NvmlEnergy : public EnergyCounter {
 public:
  explicit NvmlEnergy(std::shared_ptr<const Nvml> nvml) : nvml_(std::move(nvml)) {}
  [[nodiscard]] double Read_J() override { return nvml_->TotalEnergy_J(); }
  [[nodiscard]] std::string name() const override { return "NVML"; }
  [[nodiscard]] bool is_of_machine() const override { return false; }

 private:
  std::shared_ptr<const Nvml> nvml_;
};

}  // namespace overlapbench
