#include "device/cuda/nvml.h"

#include <dlfcn.h>

#include <array>

namespace overlapbench {
namespace {

using DeviceCall = int (*)(void*, unsigned, unsigned*);

struct ReasonBit {
  unsigned long long bit;
  const char* name;
};
// nvmlClocksEventReasons that mean heat or hardware protection. The software power cap is left out:
// a GEMM at full rate runs into it by design, alone and overlapped alike.
constexpr std::array<ReasonBit, 4> kThrottleBits = {{{0x08, "hardware slowdown"},
                                                     {0x20, "software thermal slowdown"},
                                                     {0x40, "hardware thermal slowdown"},
                                                     {0x80, "hardware power brake"}}};

}  // namespace

template <class Function>
Function Nvml::Find(const char* symbol) const {
  return library_ == nullptr ? nullptr : reinterpret_cast<Function>(dlsym(library_, symbol));
}

Nvml::Nvml(const std::string& pci_bus_id) : library_(dlopen("libnvidia-ml.so.1", RTLD_NOW)) {
  const auto initialize = Find<int (*)()>("nvmlInit_v2");
  const auto by_bus = Find<int (*)(const char*, void**)>("nvmlDeviceGetHandleByPciBusId_v2");
  if (initialize == nullptr || by_bus == nullptr || initialize() != 0) return;
  if (by_bus(pci_bus_id.c_str(), &gpu_) != 0) gpu_ = nullptr;
  thermal_violation_ns_ = ThermalViolation_ns();
}

Nvml::~Nvml() {
  if (const auto shut_down = Find<int (*)()>("nvmlShutdown")) shut_down();
  if (library_ != nullptr) dlclose(library_);
}

unsigned long long Nvml::ThermalViolation_ns() const {
  struct ViolationTime {
    unsigned long long reference;
    unsigned long long violation_ns;
  };
  constexpr int kThermalPolicy = 1;
  ViolationTime time{};
  const auto violation = Find<int (*)(void*, int, ViolationTime*)>("nvmlDeviceGetViolationStatus");
  if (gpu_ == nullptr || violation == nullptr || violation(gpu_, kThermalPolicy, &time) != 0)
    return 0;
  return time.violation_ns;
}

std::string Nvml::ThrottleReason() {
  const auto reasons_of =
      Find<int (*)(void*, unsigned long long*)>("nvmlDeviceGetCurrentClocksThrottleReasons");
  if (gpu_ == nullptr || reasons_of == nullptr) return "";
  unsigned long long reasons = 0;
  if (reasons_of(gpu_, &reasons) == 0) {
    for (const auto& [bit, name] : kThrottleBits) {
      if ((reasons & bit) != 0) return name;
    }
  }
  const unsigned long long violation_ns = ThermalViolation_ns();
  const bool throttled = violation_ns > thermal_violation_ns_;
  thermal_violation_ns_ = violation_ns;
  return throttled ? "thermal slowdown" : "";
}

std::map<std::string, std::string> Nvml::Facts() const {
  std::map<std::string, std::string> facts;
  if (gpu_ == nullptr) return facts;
  std::array<char, 96> version{};
  const auto driver_version = Find<int (*)(char*, unsigned)>("nvmlSystemGetDriverVersion");
  if (driver_version != nullptr && driver_version(version.data(), version.size()) == 0) {
    facts["driver_version"] = version.data();
  }
  struct ClockName {
    unsigned type;
    const char* name;
  };
  constexpr std::array<ClockName, 2> kClocks = {{{1, "sm_clock_MHz"}, {2, "memory_clock_MHz"}}};
  const auto clock = Find<DeviceCall>("nvmlDeviceGetClockInfo");
  for (const auto& [type, name] : kClocks) {
    unsigned mhz = 0;
    if (clock != nullptr && clock(gpu_, type, &mhz) == 0) facts[name] = std::to_string(mhz);
  }
  constexpr unsigned kMostLinks = 18;
  unsigned active_links = 0;
  const auto link_state = Find<DeviceCall>("nvmlDeviceGetNvLinkState");
  for (unsigned link = 0; link_state != nullptr && link < kMostLinks; ++link) {
    unsigned active = 0;
    if (link_state(gpu_, link, &active) == 0) active_links += active;
  }
  facts["nvlinks_active"] = std::to_string(active_links);
  return facts;
}

}  // namespace overlapbench
