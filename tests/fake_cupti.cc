#include "fake_cupti.h"

#include <algorithm>
#include <chrono>
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
constexpr int kDriverApi = 1;  // domains of calls
constexpr int kRuntimeApi = 2;
constexpr int kDriverCalls = 4;  // kinds of records
constexpr int kRuntimeCalls = 5;

using overlapbench::FakeCupti;
using overlapbench::TheFakeCupti;

// Registered once a process, by whoever takes the records.
struct Callbacks {
  void (*request)(std::uint8_t** buffer, std::size_t* size, std::size_t* most_records) = nullptr;
  void (*complete)(void* context, std::uint32_t stream, std::uint8_t* buffer, std::size_t size,
                   std::size_t valid_size) = nullptr;
};
Callbacks& TheCallbacks() {
  static Callbacks callbacks;
  return callbacks;
}

// In one buffer.
void HandOver(const std::vector<FakeCupti::Record>& records) {
  std::uint8_t* buffer = nullptr;
  std::size_t size = 0;
  std::size_t most_records = 0;
  TheCallbacks().request(&buffer, &size, &most_records);
  const std::size_t fitting = std::min(records.size(), size / sizeof(FakeCupti::Record));
  for (std::size_t i = 0; i < fitting; ++i)
    std::ranges::copy(records[i], buffer + i * sizeof(FakeCupti::Record));
  TheCallbacks().complete(nullptr, 0, buffer, size, fitting * sizeof(FakeCupti::Record));
}

int ResultOf(const char* function) {
  const auto& refused = TheFakeCupti().refused;
  const auto found = refused.find(function);
  return found == refused.end() ? kSuccess : found->second;
}

int KindOf(int domain) { return domain == kDriverApi ? kDriverCalls : kRuntimeCalls; }
int Silence(int domain, std::uint32_t id, std::uint8_t enable) {
  if (enable == 0)
    TheFakeCupti().silenced.insert({domain, id});
  else
    TheFakeCupti().silenced.erase({domain, id});
  return kSuccess;
}

}  // namespace

// By the C interface alone: neither the toolkit nor its headers are needed.
extern "C" {

int cuptiSubscribe(void** subscriber, void* /*callback*/, void* /*user*/) {
  const int result = ResultOf("cuptiSubscribe");
  if (result != kSuccess) return result;
  ++TheFakeCupti().subscribers;
  *subscriber = &TheFakeCupti();
  return kSuccess;
}
int cuptiUnsubscribe(void* /*subscriber*/) {
  --TheFakeCupti().subscribers;
  return kSuccess;
}

int cuptiActivityRegisterCallbacks(decltype(Callbacks::request) request,
                                   decltype(Callbacks::complete) complete) {
  ++TheFakeCupti().registrations;
  TheCallbacks() = {request, complete};
  return ResultOf("cuptiActivityRegisterCallbacks");
}
// Enables all calls of a kind, overriding earlier settings of single calls.
int cuptiActivityEnable(int kind) {
  std::erase_if(TheFakeCupti().silenced,
                [&](const auto& call) { return KindOf(call.first) == kind; });
  return ResultOf("cuptiActivityEnable");
}
int cuptiActivityEnableRuntimeApi(std::uint32_t id, std::uint8_t enable) {
  return Silence(kRuntimeApi, id, enable);
}
int cuptiActivityEnableDriverApi(std::uint32_t id, std::uint8_t enable) {
  return Silence(kDriverApi, id, enable);
}
int cuptiActivityDisable(int /*kind*/) { return kSuccess; }
int cuptiActivityFlushAll(std::uint32_t /*flag*/) {
  const auto records = std::exchange(TheFakeCupti().records, {});
  if (!records.empty() || TheFakeCupti().dropped > 0) HandOver(records);
  return kSuccess;
}
int cuptiActivityGetNextRecord(std::uint8_t* buffer, std::size_t size, std::uint8_t** record) {
  if (const int result = ResultOf("cuptiActivityGetNextRecord"); result != kSuccess) return result;
  std::uint8_t* const next = *record == nullptr ? buffer : *record + sizeof(FakeCupti::Record);
  if (next >= buffer + size) return kMaxLimitReached;
  *record = next;
  return kSuccess;
}
int cuptiActivityGetNumDroppedRecords(void* /*context*/, std::uint32_t /*stream*/,
                                      std::size_t* dropped) {
  *dropped = std::exchange(TheFakeCupti().dropped, 0);
  return kSuccess;
}
int cuptiActivityPushExternalCorrelationId(int /*kind*/, std::uint64_t /*id*/) { return kSuccess; }
int cuptiActivityPopExternalCorrelationId(int /*kind*/, std::uint64_t* last) {
  *last = 0;
  return kSuccess;
}
int cuptiGetTimestamp(std::uint64_t* now_ns) {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  *now_ns =
      FakeCupti::kAhead_ns + static_cast<std::uint64_t>(std::chrono::nanoseconds(now).count());
  return kSuccess;
}
int cuptiGetCallbackName(int domain, std::uint32_t id, const char** name) {
  const auto found = TheFakeCupti().calls.find({domain, id});
  *name = found == TheFakeCupti().calls.end() ? nullptr : found->second.c_str();
  return kSuccess;
}
int cuptiGetResultString(int result, const char** text) {
  *text = result == 35 ? "CUPTI_ERROR_INSUFFICIENT_PRIVILEGES" : nullptr;
  return kSuccess;
}

}  // extern "C"
