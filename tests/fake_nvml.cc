#include "fake_nvml.h"

#include <chrono>
#include <string>
#include <tuple>

namespace overlapbench {

FakeNvml& TheFakeNvml() {
  static FakeNvml fake;
  return fake;
}

}  // namespace overlapbench

using overlapbench::TheFakeNvml;

namespace {
constexpr auto kNotSupported = static_cast<nvmlReturn_t>(3);
}  // namespace

extern "C" {

nvmlReturn_t nvmlInit_v2() { return NVML_SUCCESS; }
nvmlReturn_t nvmlShutdown() { return NVML_SUCCESS; }

nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char* bus_id, nvmlDevice_t* device) {
  if (std::string(bus_id) != overlapbench::kFakeBusId) return kNotSupported;
  *device = reinterpret_cast<nvmlDevice_t>(&TheFakeNvml());
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetClockInfo(nvmlDevice_t /*device*/, nvmlClockType_t type,
                                    unsigned* clock_MHz) {
  const std::optional<unsigned> sm_clock_MHz = TheFakeNvml().sm_clock_MHz;
  if (type != NVML_CLOCK_SM || !sm_clock_MHz) return kNotSupported;
  *clock_MHz = *sm_clock_MHz;
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetTotalEnergyConsumption(nvmlDevice_t /*device*/,
                                                 unsigned long long* energy_mJ) {
  constexpr std::chrono::milliseconds kTick(100);
  static const auto first = std::chrono::steady_clock::now();
  const std::optional<double> power_W = TheFakeNvml().power_W;
  if (!power_W) return static_cast<nvmlReturn_t>(TheFakeNvml().energy_result);
  const auto ticks = (std::chrono::steady_clock::now() - first) / kTick;
  *energy_mJ =
      static_cast<unsigned long long>(*power_W * static_cast<double>(ticks * kTick.count()));
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t /*device*/, unsigned* current, unsigned* pending) {
  *current = *pending = TheFakeNvml().is_in_mig_mode ? 1 : 0;
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t /*device*/, unsigned* count,
                                                     nvmlProcessInfo_t* processes) {
  const std::vector<unsigned>& all = TheFakeNvml().processes;
  const bool fits = *count >= all.size();
  *count = static_cast<unsigned>(all.size());
  if (!fits) return NVML_ERROR_INSUFFICIENT_SIZE;
  for (const unsigned pid : all) *processes++ = {.pid = pid};
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetProcessUtilization(nvmlDevice_t /*device*/,
                                             nvmlProcessUtilizationSample_t* samples,
                                             unsigned* count, unsigned long long /*last_seen*/) {
  const auto& use = TheFakeNvml().process_use;
  if (!use) return kNotSupported;
  *count = 0;
  for (const auto& [pid, sm_pct] : *use) samples[(*count)++] = {.pid = pid, .smUtil = sm_pct};
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetFieldValues(nvmlDevice_t /*device*/, int count,
                                      nvmlFieldValue_t* values) {
  for (int i = 0; i < count; ++i) {
    nvmlFieldValue_t& field = values[i];
    const auto found = TheFakeNvml().fields.find({field.fieldId, field.scopeId});
    field.nvmlReturn = found == TheFakeNvml().fields.end() ? kNotSupported : NVML_SUCCESS;
    if (found != TheFakeNvml().fields.end()) std::tie(field.valueType, field.value) = found->second;
  }
  return NVML_SUCCESS;
}

}  // extern "C"
