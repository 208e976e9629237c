#include "device/cuda/nvml.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <climits>
#include <utility>

#include "device/cuda/nvml_api.h"
#include "device/dynamic_library.h"
#include "device/error.h"

namespace overlapbench {
namespace {

struct NamedReason {
  unsigned long long bit;
  const char* name;
};
constexpr std::array<NamedReason, 4> kReasons = {
    {{nvmlClocksThrottleReasonHwSlowdown, "hardware slowdown"},
     {nvmlClocksEventReasonSwThermalSlowdown, "software thermal slowdown"},
     {nvmlClocksThrottleReasonHwThermalSlowdown, "hardware thermal slowdown"},
     {nvmlClocksThrottleReasonHwPowerBrakeSlowdown, "hardware power brake"}}};

struct NamedClock {
  nvmlClockType_t type;
  const char* name;
};
constexpr std::array<NamedClock, 2> kClocks = {
    {{NVML_CLOCK_SM, "sm_clock_MHz"}, {NVML_CLOCK_MEM, "memory_clock_MHz"}}};

struct EnergyFault {
  nvmlReturn_t code;
  const char* text;
};
constexpr std::array<EnergyFault, 4> kEnergyFaults = {
    {{NVML_ERROR_NOT_SUPPORTED, "this GPU has no energy counter"},
     {NVML_ERROR_NO_PERMISSION, "NVML denies permission to read the energy counter"},
     {NVML_ERROR_FUNCTION_NOT_FOUND, "the driver's NVML has no energy counter"},
     {NVML_ERROR_GPU_IS_LOST, "the GPU has fallen off the bus"}}};

// CUDA 13 marks the violation counter deprecated in favour of field values; drivers still have it.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
using GetViolationStatus = decltype(&nvmlDeviceGetViolationStatus);
#pragma GCC diagnostic pop

std::optional<double> ValueOf(const nvmlFieldValue_t& field) {
  if (field.nvmlReturn != NVML_SUCCESS) return std::nullopt;
  switch (field.valueType) {
    case NVML_VALUE_TYPE_DOUBLE:
      return field.value.dVal;
    case NVML_VALUE_TYPE_UNSIGNED_INT:
      return field.value.uiVal;
    case NVML_VALUE_TYPE_UNSIGNED_LONG:
      return static_cast<double>(field.value.ulVal);
    case NVML_VALUE_TYPE_UNSIGNED_LONG_LONG:
      return static_cast<double>(field.value.ullVal);
    case NVML_VALUE_TYPE_SIGNED_LONG_LONG:
      return static_cast<double>(field.value.sllVal);
    default:
      return std::nullopt;
  }
}

std::optional<double> Times(std::optional<double> value, double factor) {
  if (value) *value *= factor;
  return value;
}

}  // namespace

// The library and the GPU's handle. Old drivers lack some of the functions.
struct Nvml::Library : DynamicLibrary {
  explicit Library(const std::string& pci_bus_id)
      : DynamicLibrary("the GPU's state needs NVML", "libnvidia-ml.so.1") {
    if (initialize() != NVML_SUCCESS) throw Error("NVML cannot be initialized");
    if (by_bus(pci_bus_id.c_str(), &gpu) != NVML_SUCCESS) gpu = nullptr;
  }
  ~Library() {
    if (shut_down != nullptr) shut_down();
  }
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;

  nvmlDevice_t gpu = nullptr;
  LIBRARY_FUNCTION(initialize, nvmlInit_v2);
  LIBRARY_FUNCTION(by_bus, nvmlDeviceGetHandleByPciBusId_v2);
  OPTIONAL_LIBRARY_FUNCTION(shut_down, nvmlShutdown);
  // Drivers older than 535 have it under its old name only.
  const decltype(&nvmlDeviceGetCurrentClocksEventReasons) reasons = FindReasons();
  const GetViolationStatus violation = Find("nvmlDeviceGetViolationStatus");
  OPTIONAL_LIBRARY_FUNCTION(driver_version, nvmlSystemGetDriverVersion);
  OPTIONAL_LIBRARY_FUNCTION(clock, nvmlDeviceGetClockInfo);
  OPTIONAL_LIBRARY_FUNCTION(utilization, nvmlDeviceGetUtilizationRates);
  OPTIONAL_LIBRARY_FUNCTION(processes, nvmlDeviceGetComputeRunningProcesses_v3);
  OPTIONAL_LIBRARY_FUNCTION(process_utilization, nvmlDeviceGetProcessUtilization);
  OPTIONAL_LIBRARY_FUNCTION(link_state, nvmlDeviceGetNvLinkState);
  OPTIONAL_LIBRARY_FUNCTION(field_values, nvmlDeviceGetFieldValues);
  OPTIONAL_LIBRARY_FUNCTION(total_energy, nvmlDeviceGetTotalEnergyConsumption);
  OPTIONAL_LIBRARY_FUNCTION(mig_mode, nvmlDeviceGetMigMode);

 private:
  [[nodiscard]] Symbol FindReasons() const {
    const Symbol reasons = Find("nvmlDeviceGetCurrentClocksEventReasons");
    return reasons ? reasons : Find("nvmlDeviceGetCurrentClocksThrottleReasons");
  }
};

Nvml::Nvml(const std::string& pci_bus_id) {
  try {
    library_ = std::make_unique<Library>(pci_bus_id);
  } catch (const Error&) {
    library_ = nullptr;  // every result is empty
  }
}

Nvml::~Nvml() = default;

bool Nvml::available() const { return library_ != nullptr && library_->gpu != nullptr; }

std::optional<std::set<std::string>> Nvml::Reasons() const {
  unsigned long long bits = 0;
  if (!available() || library_->reasons == nullptr ||
      library_->reasons(library_->gpu, &bits) != NVML_SUCCESS) {
    return std::nullopt;
  }
  std::set<std::string> reasons;
  for (const auto& [bit, name] : kReasons) {
    if ((bits & bit) != 0) reasons.insert(name);
  }
  return reasons;
}

std::optional<std::chrono::nanoseconds> Nvml::ThermalViolation() const {
  nvmlViolationTime_t time{};
  if (!available() || library_->violation == nullptr ||
      library_->violation(library_->gpu, NVML_PERF_POLICY_THERMAL, &time) != NVML_SUCCESS) {
    return std::nullopt;
  }
  return std::chrono::nanoseconds(time.violationTime);
}

GaugeLook Nvml::LookAtGauges() const {
  constexpr double kWattsInMilliwatt = 1e-3;
  constexpr double kBytesInKiB = 1024;
  GaugeLook look;
  if (!available()) return look;
  unsigned clock_MHz = 0;
  if (library_->clock != nullptr &&
      library_->clock(library_->gpu, NVML_CLOCK_SM, &clock_MHz) == NVML_SUCCESS) {
    look.sm_clock_MHz = clock_MHz;
  }
  // The counters' scope is one link, or all links together; the power's is the GPU (0).
  std::array<nvmlFieldValue_t, 3> fields{};
  auto& [power, sent, received] = fields;
  power.fieldId = NVML_FI_DEV_POWER_INSTANT;
  sent.fieldId = NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX;
  received.fieldId = NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX;
  sent.scopeId = received.scopeId = UINT_MAX;
  if (library_->field_values == nullptr ||
      library_->field_values(library_->gpu, fields.size(), fields.data()) != NVML_SUCCESS) {
    return look;
  }
  look.power_W = Times(ValueOf(power), kWattsInMilliwatt);
  look.nvlink_sent_bytes = Times(ValueOf(sent), kBytesInKiB);
  look.nvlink_received_bytes = Times(ValueOf(received), kBytesInKiB);
  return look;
}

double Nvml::TotalEnergy_J() const {
  constexpr double kJoulesInMillijoule = 1e-3;
  if (!available()) throw Error("NVML is not available, or does not know this GPU");
  unsigned mig = 0;
  unsigned pending = 0;
  if (library_->mig_mode != nullptr &&
      library_->mig_mode(library_->gpu, &mig, &pending) == NVML_SUCCESS && mig != 0)
    throw Error("the GPU is in MIG mode, and NVML counts the energy of all its instances");
  unsigned long long energy_mJ = 0;
  const nvmlReturn_t result = library_->total_energy == nullptr
                                  ? NVML_ERROR_FUNCTION_NOT_FOUND
                                  : library_->total_energy(library_->gpu, &energy_mJ);
  if (result == NVML_SUCCESS) return kJoulesInMillijoule * static_cast<double>(energy_mJ);
  const auto known = std::ranges::find(kEnergyFaults, result, &EnergyFault::code);
  throw Error(known != kEnergyFaults.end()
                  ? known->text
                  : fmt::format("NVML's energy counter: error {}", static_cast<unsigned>(result)));
}

DeviceUse Nvml::Use() const {
  DeviceUse use;
  if (!available()) return use;
  nvmlUtilization_t utilization{};
  if (library_->utilization != nullptr &&
      library_->utilization(library_->gpu, &utilization) == NVML_SUCCESS) {
    use.busy_pct = utilization.gpu;
  }
  if (library_->processes == nullptr) return use;
  // Without a buffer, NVML only counts the processes. More may start before the second call.
  constexpr unsigned kMore = 16;
  unsigned count = 0;
  library_->processes(library_->gpu, &count, nullptr);
  count += kMore;
  std::vector<nvmlProcessInfo_t> found(count);
  if (library_->processes(library_->gpu, &count, found.data()) != NVML_SUCCESS) return use;
  found.resize(count);
  for (const nvmlProcessInfo_t& process : found) use.processes.push_back(process.pid);
  const std::set<long> idle = IdleProcesses(use.processes);
  std::erase_if(use.processes, [&](long id) { return idle.contains(id); });
  return use;
}

// This process has just used the GPU. If the driver does not say so, it samples no processes, or
// knows them by other ids; then none is known to be idle.
std::set<long> Nvml::IdleProcesses(const std::vector<long>& all) const {
  constexpr std::chrono::microseconds kRecent = std::chrono::seconds(2);
  constexpr unsigned kMost = 1024;
  if (library_->process_utilization == nullptr) return {};
  const auto since = std::chrono::system_clock::now().time_since_epoch() - kRecent;
  const auto since_us = std::chrono::duration_cast<std::chrono::microseconds>(since).count();
  std::vector<nvmlProcessUtilizationSample_t> samples(kMost);
  unsigned count = kMost;
  if (library_->process_utilization(library_->gpu, samples.data(), &count,
                                    static_cast<unsigned long long>(since_us)) != NVML_SUCCESS)
    return {};
  samples.resize(std::min(count, kMost));
  bool lists_this_process = false;
  std::set<long> idle(all.begin(), all.end());
  for (const nvmlProcessUtilizationSample_t& sample : samples) {
    const bool is_own = std::cmp_equal(sample.pid, getpid());
    lists_this_process = lists_this_process || is_own;
    if (is_own || sample.smUtil > 0) idle.erase(sample.pid);
  }
  return lists_this_process ? idle : std::set<long>();
}

int Nvml::active_links() const {
  int active_links = 0;
  if (!available() || library_->link_state == nullptr) return active_links;
  for (unsigned link = 0; link < NVML_NVLINK_MAX_LINKS; ++link) {
    nvmlEnableState_t active = NVML_FEATURE_DISABLED;
    if (library_->link_state(library_->gpu, link, &active) == NVML_SUCCESS &&
        active == NVML_FEATURE_ENABLED) {
      ++active_links;
    }
  }
  return active_links;
}

std::map<std::string, std::string> Nvml::Facts() const {
  std::map<std::string, std::string> facts;
  if (!available()) return facts;
  std::array<char, NVML_SYSTEM_DRIVER_VERSION_BUFFER_SIZE> version{};
  if (library_->driver_version != nullptr &&
      library_->driver_version(version.data(), version.size()) == NVML_SUCCESS) {
    facts["driver_version"] = version.data();
  }
  for (const auto& [type, name] : kClocks) {
    unsigned mhz = 0;
    if (library_->clock != nullptr && library_->clock(library_->gpu, type, &mhz) == NVML_SUCCESS) {
      facts[name] = std::to_string(mhz);
    }
  }
  facts["nvlinks_active"] = std::to_string(active_links());
  return facts;
}

}  // namespace overlapbench
