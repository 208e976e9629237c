#include "device/trace.h"

#include <nvtx3/nvToolsExt.h>

#include <map>

namespace overlapbench {
namespace {

// Registered strings are what nsys matches by name without reading every range's text.
nvtxStringHandle_t Registered(const std::string& name) {
  static const nvtxDomainHandle_t kDefaultDomain = nullptr;
  thread_local std::map<std::string, nvtxStringHandle_t> handles;
  auto [entry, is_new] = handles.try_emplace(name, nullptr);
  if (is_new) entry->second = nvtxDomainRegisterStringA(kDefaultDomain, name.c_str());
  return entry->second;
}

}  // namespace

TraceRange::TraceRange(const std::string& name) {
  nvtxEventAttributes_t attributes{};
  attributes.version = NVTX_VERSION;
  attributes.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  attributes.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
  attributes.message.registered = Registered(name);
  nvtxRangePushEx(&attributes);
}

TraceRange::~TraceRange() { nvtxRangePop(); }

}  // namespace overlapbench
