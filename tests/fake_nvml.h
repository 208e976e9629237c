// A library in NVML's place, for tests without a GPU.
//
// A program that is linked to it has loaded it under the name of NVIDIA's own (libnvidia-ml.so.1),
// so that is what Nvml finds. It knows one GPU and has the functions that its source file defines;
// the others are missing, as in an old driver.
#pragma once

#include <map>
#include <optional>
#include <utility>

#include "device/cuda/nvml_api.h"

namespace overlapbench {

inline constexpr const char* kFakeBusId = "0000:00:01.0";

struct FakeNvml {
  std::optional<unsigned> sm_clock_MHz;
  // By field and scope. Others are not supported.
  std::map<std::pair<unsigned, unsigned>, std::pair<nvmlValueType_t, nvmlValue_t>> fields;
};

// What the library answers from.
FakeNvml& TheFakeNvml();

}  // namespace overlapbench
