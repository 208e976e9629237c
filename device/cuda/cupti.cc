#if __has_include(<cupti.h>)

#include "device/cuda/cupti.h"

#include <cuda_runtime.h>
#include <fmt/core.h>

#include "device/error.h"

namespace overlapbench {

Cupti::Cupti()
    : DynamicLibrary("a trace needs CUPTI", fmt::format("libcupti.so.{}", CUDART_VERSION / 1000)) {}

void Cupti::Check(CUptiResult code, const std::string& call) const {
  if (code == CUPTI_SUCCESS) return;
  const char* text = nullptr;
  get_result_string(code, &text);
  throw Error(fmt::format("{} failed: {}", call,
                          text != nullptr ? text : std::to_string(static_cast<int>(code))));
}

}  // namespace overlapbench

#endif
