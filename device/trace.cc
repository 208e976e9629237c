#include "device/trace.h"

#ifdef OVERLAPBENCH_WITH_CUDA
#include <nvtx3/nvToolsExt.h>

#include <map>
#endif

namespace overlapbench {

#ifdef OVERLAPBENCH_WITH_CUDA

namespace {

const TraceName& Registered(const std::string& name) {
  thread_local std::map<std::string, TraceName> names;
  auto entry = names.find(name);
  if (entry == names.end()) entry = names.emplace(name, TraceName(name)).first;
  return entry->second;
}

}  // namespace

TraceName::TraceName(const std::string& name) {
  const nvtxDomainHandle_t default_domain = nullptr;
  registered_ = nvtxDomainRegisterStringA(default_domain, name.c_str());
}

TraceRange::TraceRange(const TraceName& name) {
  nvtxEventAttributes_t attributes{};
  attributes.version = NVTX_VERSION;
  attributes.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  attributes.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
  attributes.message.registered = static_cast<nvtxStringHandle_t>(name.registered_);
  nvtxRangePushEx(&attributes);
}

TraceRange::TraceRange(const std::string& name) : TraceRange(Registered(name)) {}

TraceRange::~TraceRange() { nvtxRangePop(); }

#else

TraceName::TraceName(const std::string& /*name*/) {}
TraceRange::TraceRange(const TraceName& /*name*/) {}
TraceRange::TraceRange(const std::string& /*name*/) {}
TraceRange::~TraceRange() = default;

#endif

}  // namespace overlapbench
