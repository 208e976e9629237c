#include "device/trace.h"

#ifdef OVERLAPBENCH_WITH_CUDA
#include <nvtx3/nvToolsExt.h>

#include <array>
#include <map>
#endif

namespace overlapbench {

#ifdef OVERLAPBENCH_WITH_CUDA

namespace {

constexpr std::array<const char*, 7> kCategories = {"row", "run",  "COMP", "COMM",
                                                    "MEM", "gate", "wait"};
// Categories count from 1: 0 is none.
std::uint32_t CategoryOf(RangeKind kind) { return static_cast<std::uint32_t>(kind) + 1; }

// nullptr if no tool is attached. It is never destroyed, since the tool may be unloaded first.
nvtxDomainHandle_t Domain() {
  static const nvtxDomainHandle_t domain = [] {
    const nvtxDomainHandle_t created = nvtxDomainCreateA("overlapbench");
    for (std::size_t i = 0; created != nullptr && i < kCategories.size(); ++i) {
      nvtxDomainNameCategoryA(created, CategoryOf(static_cast<RangeKind>(i)), kCategories.at(i));
    }
    return created;
  }();
  return domain;
}

// NVTX never frees registered strings. Each thread registers a name again, which is harmless.
nvtxStringHandle_t Registered(const std::string& name) {
  thread_local std::map<std::string, nvtxStringHandle_t> names;
  auto entry = names.find(name);
  if (entry == names.end())
    entry = names.emplace(name, nvtxDomainRegisterStringA(Domain(), name.c_str())).first;
  return entry->second;
}

}  // namespace

// A range has one number at most, which fits an event's own payload. NVTX's payload schemas, an
// extension for structures, would add nothing, and fewer tools show them.
TraceRange::TraceRange(RangeKind kind, const std::string& name,
                       std::optional<std::uint64_t> payload) {
  if (!IsHeard()) return;
  nvtxEventAttributes_t attributes{};
  attributes.version = NVTX_VERSION;
  attributes.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  attributes.category = CategoryOf(kind);
  attributes.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
  attributes.message.registered = Registered(name);
  if (payload) {
    attributes.payloadType = NVTX_PAYLOAD_TYPE_UNSIGNED_INT64;
    attributes.payload.ullValue = *payload;
  }
  nvtxDomainRangePushEx(Domain(), &attributes);
}

bool TraceRange::IsHeard() { return Domain() != nullptr; }

TraceRange::~TraceRange() {
  if (IsHeard()) nvtxDomainRangePop(Domain());
}

#else

TraceRange::TraceRange(RangeKind /*kind*/, const std::string& /*name*/,
                       std::optional<std::uint64_t> /*payload*/) {}
TraceRange::~TraceRange() = default;
bool TraceRange::IsHeard() { return false; }

#endif

}  // namespace overlapbench
