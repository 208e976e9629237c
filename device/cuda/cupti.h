// Cupti: NVIDIA's library that records what ran on a GPU and when (CUPTI Activity API), on machines
// that have it. It comes with the toolkit, not with the driver. The first watch (cupti_watch.h)
// opens it.
#pragma once

#include <cuda_runtime.h>
#include <cupti.h>
#include <fmt/core.h>

#include <string>

#include "device/dynamic_library.h"
#include "device/error.h"

namespace overlapbench {

struct Cupti : DynamicLibrary {
  // Throws Error if CUPTI is missing or lacks one of these functions.
  Cupti()
      : DynamicLibrary("a trace needs CUPTI",
                       fmt::format("libcupti.so.{}", CUDART_VERSION / 1000)) {}

  LIBRARY_FUNCTION(subscribe, cuptiSubscribe);
  LIBRARY_FUNCTION(unsubscribe, cuptiUnsubscribe);
  LIBRARY_FUNCTION(register_callbacks, cuptiActivityRegisterCallbacks);
  LIBRARY_FUNCTION(enable, cuptiActivityEnable);
  LIBRARY_FUNCTION(disable, cuptiActivityDisable);
  LIBRARY_FUNCTION(enable_runtime_call, cuptiActivityEnableRuntimeApi);
  LIBRARY_FUNCTION(enable_driver_call, cuptiActivityEnableDriverApi);
  LIBRARY_FUNCTION(flush_all, cuptiActivityFlushAll);
  LIBRARY_FUNCTION(get_next_record, cuptiActivityGetNextRecord);
  LIBRARY_FUNCTION(get_dropped, cuptiActivityGetNumDroppedRecords);
  LIBRARY_FUNCTION(push_external, cuptiActivityPushExternalCorrelationId);
  LIBRARY_FUNCTION(pop_external, cuptiActivityPopExternalCorrelationId);
  LIBRARY_FUNCTION(get_timestamp, cuptiGetTimestamp);
  LIBRARY_FUNCTION(get_callback_name, cuptiGetCallbackName);
  LIBRARY_FUNCTION(get_result_string, cuptiGetResultString);

  // Throws Error with the call and CUPTI's own text unless `code` is CUPTI_SUCCESS.
  void Check(CUptiResult code, const std::string& call) const {
    if (code == CUPTI_SUCCESS) return;
    const char* text = nullptr;
    get_result_string(code, &text);
    throw Error(fmt::format("{} failed: {}", call,
                            text != nullptr ? text : std::to_string(static_cast<int>(code))));
  }
};

}  // namespace overlapbench
