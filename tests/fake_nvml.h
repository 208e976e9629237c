// A fake NVML, for tests without a GPU.
//
// A program that links it loads it under the name of NVIDIA's library (libnvidia-ml.so.1), so Nvml
// finds it. It knows one GPU and has the functions that its source file defines; the others are
// missing, as in an old driver.
#pragma once

#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "device/cuda/nvml_api.h"

namespace overlapbench {

inline constexpr const char* kFakeBusId = "0000:00:01.0";

struct FakeNvml {
  std::optional<unsigned> sm_clock_MHz;
  std::vector<unsigned> processes;
  // What each sampled process took of the SMs, in percent. Without a value, none is sampled.
  std::optional<std::vector<std::pair<unsigned, unsigned>>> process_use;
  // What the energy counter shows, or why it does not.
  std::optional<double> power_W;  // since the first reading, in ticks of 100 ms
  unsigned energy_result = 3;     // without a power: not supported
  bool is_in_mig_mode = false;
  // By field and scope. Others are not supported.
  std::map<std::pair<unsigned, unsigned>, std::pair<nvmlValueType_t, nvmlValue_t>> fields;
};

// What the library answers from.
FakeNvml& TheFakeNvml();

}  // namespace overlapbench
