// Cupti: NVIDIA's library that records what ran on a GPU and when (CUPTI Activity API), on machines
// that have it.
//
// CUPTI comes with the toolkit, not with the driver. The first watch (cupti_watch.h) opens it, so
// the program starts without it. It then stays loaded, since CUDA keeps calling it.
#pragma once

#include <cupti.h>

#include <string>

namespace overlapbench {

class Cupti {
 public:
  // Throws Error if CUPTI is missing or lacks one of these functions.
  Cupti();

 private:
  template <class Function>
  Function* Find(const char* symbol) const;

  void* library_;

 public:
  decltype(&cuptiSubscribe) const subscribe;
  decltype(&cuptiUnsubscribe) const unsubscribe;
  decltype(&cuptiActivityRegisterCallbacks) const register_callbacks;
  decltype(&cuptiActivityEnable) const enable;
  decltype(&cuptiActivityDisable) const disable;
  decltype(&cuptiActivityEnableRuntimeApi) const enable_runtime_call;
  decltype(&cuptiActivityEnableDriverApi) const enable_driver_call;
  decltype(&cuptiActivityFlushAll) const flush_all;
  decltype(&cuptiActivityGetNextRecord) const get_next_record;
  decltype(&cuptiActivityGetNumDroppedRecords) const get_dropped;
  decltype(&cuptiActivityPushExternalCorrelationId) const push_external;
  decltype(&cuptiActivityPopExternalCorrelationId) const pop_external;
  decltype(&cuptiGetTimestamp) const get_timestamp;
  decltype(&cuptiGetCallbackName) const get_callback_name;
  decltype(&cuptiGetResultString) const get_result_string;

  // Throws Error with the call and CUPTI's own text unless `code` is CUPTI_SUCCESS.
  void Check(CUptiResult code, const std::string& call) const;
};

}  // namespace overlapbench
