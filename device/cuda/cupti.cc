#if __has_include(<cupti.h>)

#include "device/cuda/cupti.h"

#include <cuda_runtime.h>
#include <dlfcn.h>
#include <fmt/core.h>

#include <array>

#include "device/error.h"

namespace overlapbench {
namespace {

// Tries the dynamic linker's paths first, then those of toolkits.
void* OpenLibrary() {
  const std::string name = fmt::format("libcupti.so.{}", CUDART_VERSION / 1000);
  for (const char* folder : {"", "/usr/local/cuda/extras/CUPTI/lib64/", "/usr/local/cuda/lib64/",
                             "/usr/local/cuda/lib/"}) {
    if (void* library = dlopen((folder + name).c_str(), RTLD_NOW)) return library;
  }
  throw Error(fmt::format(
      "there is no CUPTI: {} was not found; install the toolkit's CUPTI, or name its folder in "
      "LD_LIBRARY_PATH",
      name));
}

}  // namespace

template <class Function>
Function* Cupti::Find(const char* symbol) const {
  void* const found = dlsym(library_, symbol);
  if (found == nullptr) throw Error(fmt::format("CUPTI has no {}: a newer one is needed", symbol));
  return reinterpret_cast<Function*>(found);
}

#define FIND(function) Find<decltype(function)>(#function)

Cupti::Cupti()
    : library_(OpenLibrary()),
      subscribe(FIND(cuptiSubscribe)),
      unsubscribe(FIND(cuptiUnsubscribe)),
      register_callbacks(FIND(cuptiActivityRegisterCallbacks)),
      enable(FIND(cuptiActivityEnable)),
      disable(FIND(cuptiActivityDisable)),
      enable_runtime_call(FIND(cuptiActivityEnableRuntimeApi)),
      enable_driver_call(FIND(cuptiActivityEnableDriverApi)),
      flush_all(FIND(cuptiActivityFlushAll)),
      get_next_record(FIND(cuptiActivityGetNextRecord)),
      get_dropped(FIND(cuptiActivityGetNumDroppedRecords)),
      push_external(FIND(cuptiActivityPushExternalCorrelationId)),
      pop_external(FIND(cuptiActivityPopExternalCorrelationId)),
      get_timestamp(FIND(cuptiGetTimestamp)),
      get_callback_name(FIND(cuptiGetCallbackName)),
      get_result_string(FIND(cuptiGetResultString)) {}

#undef FIND

void Cupti::Check(CUptiResult code, const std::string& call) const {
  if (code == CUPTI_SUCCESS) return;
  const char* text = nullptr;
  get_result_string(code, &text);
  throw Error(fmt::format("{} failed: {}", call,
                          text != nullptr ? text : std::to_string(static_cast<int>(code))));
}

}  // namespace overlapbench

#endif
