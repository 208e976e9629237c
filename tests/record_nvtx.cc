#include "record_nvtx.h"

namespace overlapbench {

NvtxRecord& TheNvtxRecord() {
  static NvtxRecord record;
  return record;
}

namespace {

nvtxDomainHandle_t NVTX_API CreateDomain(const char* name) {
  return reinterpret_cast<nvtxDomainHandle_t>(&TheNvtxRecord().domains.emplace_back(name));
}

void NVTX_API NameCategory(nvtxDomainHandle_t /*domain*/, std::uint32_t category,
                           const char* name) {
  TheNvtxRecord().categories[category] = name;
}

nvtxStringHandle_t NVTX_API RegisterString(nvtxDomainHandle_t /*domain*/, const char* text) {
  return reinterpret_cast<nvtxStringHandle_t>(&TheNvtxRecord().registered.emplace_back(text));
}

int NVTX_API Push(nvtxDomainHandle_t domain, const nvtxEventAttributes_t* attributes) {
  NvtxRecord& record = TheNvtxRecord();
  RecordedRange& range = record.ranges.emplace_back();
  const bool is_registered = attributes->messageType == NVTX_MESSAGE_TYPE_REGISTERED;
  const bool is_of_domain = domain == reinterpret_cast<nvtxDomainHandle_t>(&record.domains.front());
  if (is_registered && is_of_domain)
    range.name = *reinterpret_cast<const std::string*>(attributes->message.registered);
  range.category = record.categories[attributes->category];
  if (attributes->payloadType == NVTX_PAYLOAD_TYPE_UNSIGNED_INT64)
    range.payload = attributes->payload.ullValue;
  range.depth = record.open++;
  return static_cast<int>(range.depth);
}

int NVTX_API Pop(nvtxDomainHandle_t /*domain*/) { return static_cast<int>(--TheNvtxRecord().open); }

template <class Function>
void Put(NvtxFunctionTable table, NvtxCallbackIdCore2 id, Function function) {
  *table[id] = reinterpret_cast<NvtxFunctionPointer>(function);
}

}  // namespace
}  // namespace overlapbench

// NVTX asks for this function by its name. It returns whether the tool wants to listen.
extern "C" int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get_table) {
  using overlapbench::Put;
  const auto* const callbacks =
      static_cast<const NvtxExportTableCallbacks*>(get_table(NVTX_ETID_CALLBACKS));
  NvtxFunctionTable table = nullptr;
  unsigned size = 0;
  if (callbacks == nullptr ||
      callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE2, &table, &size) == 0 ||
      size <= NVTX_CBID_CORE2_DomainCreateA) {
    return 0;
  }
  Put(table, NVTX_CBID_CORE2_DomainCreateA, overlapbench::CreateDomain);
  Put(table, NVTX_CBID_CORE2_DomainNameCategoryA, overlapbench::NameCategory);
  Put(table, NVTX_CBID_CORE2_DomainRegisterStringA, overlapbench::RegisterString);
  Put(table, NVTX_CBID_CORE2_DomainRangePushEx, overlapbench::Push);
  Put(table, NVTX_CBID_CORE2_DomainRangePop, overlapbench::Pop);
  return 1;
}
