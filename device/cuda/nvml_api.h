// NVML's types and function declarations: the toolkit's <nvml.h>, or a stand-in without it.
//
// Some installations of the toolkit leave out its NVML part (NVIDIA packages it separately). They
// get the few declarations that nvml.cc needs, under the same names, from the NVML API reference;
// the library's ABI for them is stable. The functions are only ever named in decltype: nothing is
// linked against libnvidia-ml.
#pragma once

#if __has_include(<nvml.h>)
#include <nvml.h>
// Older headers lack it. Drivers that do not know the field return an error for it.
#ifndef NVML_FI_DEV_POWER_INSTANT
#define NVML_FI_DEV_POWER_INSTANT 186
#endif
#else

// NOLINTBEGIN(readability-identifier-naming): the names are NVIDIA's.

using nvmlDevice_t = struct nvmlDevice_st*;

enum nvmlReturn_t : unsigned {
  NVML_SUCCESS = 0,
  NVML_ERROR_NOT_SUPPORTED = 3,
  NVML_ERROR_NO_PERMISSION = 4,
  NVML_ERROR_INSUFFICIENT_SIZE = 7,
  NVML_ERROR_FUNCTION_NOT_FOUND = 13,
  NVML_ERROR_GPU_IS_LOST = 15
};
enum nvmlClockType_t : unsigned { NVML_CLOCK_SM = 1, NVML_CLOCK_MEM = 2 };
enum nvmlEnableState_t : unsigned { NVML_FEATURE_DISABLED = 0, NVML_FEATURE_ENABLED = 1 };
enum nvmlPerfPolicyType_t : unsigned { NVML_PERF_POLICY_THERMAL = 1 };

enum nvmlValueType_t : unsigned {
  NVML_VALUE_TYPE_DOUBLE = 0,
  NVML_VALUE_TYPE_UNSIGNED_INT = 1,
  NVML_VALUE_TYPE_UNSIGNED_LONG = 2,
  NVML_VALUE_TYPE_UNSIGNED_LONG_LONG = 3,
  NVML_VALUE_TYPE_SIGNED_LONG_LONG = 4
};

union nvmlValue_t {
  double dVal;
  unsigned uiVal;
  unsigned long ulVal;
  unsigned long long ullVal;
  long long sllVal;
};

struct nvmlFieldValue_t {
  unsigned fieldId;
  unsigned scopeId;     // of the field: a link, or UINT_MAX for all
  long long timestamp;  // microseconds since 1970
  long long latencyUsec;
  nvmlValueType_t valueType;
  nvmlReturn_t nvmlReturn;  // of this field alone
  nvmlValue_t value;
};

struct nvmlProcessInfo_t {
  unsigned pid;
  unsigned long long usedGpuMemory;
  unsigned gpuInstanceId;
  unsigned computeInstanceId;
};

struct nvmlProcessUtilizationSample_t {
  unsigned pid;
  unsigned long long timeStamp;  // microseconds since 1970
  unsigned smUtil;               // percent of the time, as all others
  unsigned memUtil;
  unsigned encUtil;
  unsigned decUtil;
};

struct nvmlUtilization_t {
  unsigned gpu;     // percent of the time
  unsigned memory;  // percent of the time
};

struct nvmlViolationTime_t {
  unsigned long long referenceTime;  // microseconds
  unsigned long long violationTime;  // nanoseconds
};

constexpr unsigned long long nvmlClocksThrottleReasonHwSlowdown = 0x08;
constexpr unsigned long long nvmlClocksEventReasonSwThermalSlowdown = 0x20;
constexpr unsigned long long nvmlClocksThrottleReasonHwThermalSlowdown = 0x40;
constexpr unsigned long long nvmlClocksThrottleReasonHwPowerBrakeSlowdown = 0x80;
constexpr unsigned NVML_SYSTEM_DRIVER_VERSION_BUFFER_SIZE = 80;
constexpr unsigned NVML_NVLINK_MAX_LINKS = 18;
constexpr unsigned NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX = 138;  // KiB
constexpr unsigned NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX = 139;  // KiB
constexpr unsigned NVML_FI_DEV_POWER_INSTANT = 186;              // milliwatts

extern "C" {
nvmlReturn_t nvmlInit_v2();
nvmlReturn_t nvmlShutdown();
nvmlReturn_t nvmlSystemGetDriverVersion(char* version, unsigned length);
nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char* bus_id, nvmlDevice_t* device);
nvmlReturn_t nvmlDeviceGetClockInfo(nvmlDevice_t device, nvmlClockType_t type, unsigned* clock_MHz);
nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t device, nvmlUtilization_t* utilization);
nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t device, unsigned* count,
                                                     nvmlProcessInfo_t* processes);
nvmlReturn_t nvmlDeviceGetProcessUtilization(nvmlDevice_t device,
                                             nvmlProcessUtilizationSample_t* samples,
                                             unsigned* count, unsigned long long last_seen);
nvmlReturn_t nvmlDeviceGetNvLinkState(nvmlDevice_t device, unsigned link,
                                      nvmlEnableState_t* is_active);
nvmlReturn_t nvmlDeviceGetFieldValues(nvmlDevice_t device, int count, nvmlFieldValue_t* values);
nvmlReturn_t nvmlDeviceGetTotalEnergyConsumption(nvmlDevice_t device,
                                                 unsigned long long* energy_mJ);
nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t device, unsigned* current, unsigned* pending);
nvmlReturn_t nvmlDeviceGetCurrentClocksEventReasons(nvmlDevice_t device,
                                                    unsigned long long* reasons);
nvmlReturn_t nvmlDeviceGetViolationStatus(nvmlDevice_t device, nvmlPerfPolicyType_t policy,
                                          nvmlViolationTime_t* time);
}

// NOLINTEND(readability-identifier-naming)

#endif
