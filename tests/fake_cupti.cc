#include "fake_cupti.h"

#include <cstddef>
#include <cstdint>

namespace overlapbench {

FakeCupti& TheFakeCupti() {
  static FakeCupti fake;
  return fake;
}

}  // namespace overlapbench

namespace {

// The numbers of CUPTI's API reference.
constexpr int kSuccess = 0;
constexpr int kMaxLimitReached = 12;

int ResultOf(const char* function) {
  const auto& refused = overlapbench::TheFakeCupti().refused;
  const auto found = refused.find(function);
  return found == refused.end() ? kSuccess : found->second;
}

}  // namespace

// By the C interface alone: neither the toolkit nor its headers are needed.
extern "C" {

int cuptiSubscribe(void** subscriber, void* /*callback*/, void* /*user*/) {
  const int result = ResultOf("cuptiSubscribe");
  if (result != kSuccess) return result;
  ++overlapbench::TheFakeCupti().subscribers;
  *subscriber = &overlapbench::TheFakeCupti();
  return kSuccess;
}
int cuptiUnsubscribe(void* /*subscriber*/) {
  --overlapbench::TheFakeCupti().subscribers;
  return kSuccess;
}

int cuptiActivityRegisterCallbacks(void* /*request*/, void* /*complete*/) {
  return ResultOf("cuptiActivityRegisterCallbacks");
}
int cuptiActivityEnable(int /*kind*/) { return ResultOf("cuptiActivityEnable"); }
int cuptiActivityDisable(int /*kind*/) { return kSuccess; }
int cuptiActivityFlushAll(std::uint32_t /*flag*/) { return kSuccess; }
int cuptiActivityGetNextRecord(std::uint8_t* /*buffer*/, std::size_t /*size*/, void** /*record*/) {
  return kMaxLimitReached;
}
int cuptiActivityGetNumDroppedRecords(void* /*context*/, std::uint32_t /*stream*/,
                                      std::size_t* dropped) {
  *dropped = 0;
  return kSuccess;
}
int cuptiActivityPushExternalCorrelationId(int /*kind*/, std::uint64_t /*id*/) { return kSuccess; }
int cuptiActivityPopExternalCorrelationId(int /*kind*/, std::uint64_t* last) {
  *last = 0;
  return kSuccess;
}
int cuptiGetTimestamp(std::uint64_t* now_ns) {
  static std::uint64_t time_ns = 0;
  *now_ns = ++time_ns;
  return kSuccess;
}
int cuptiGetCallbackName(int /*domain*/, std::uint32_t /*id*/, const char** name) {
  *name = "call";
  return kSuccess;
}
int cuptiGetResultString(int result, const char** text) {
  *text = result == 35 ? "CUPTI_ERROR_INSUFFICIENT_PRIVILEGES" : nullptr;
  return kSuccess;
}

}  // extern "C"
