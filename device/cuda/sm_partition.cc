#include "device/cuda/sm_partition.h"

#include <fmt/core.h>

#include "device/cuda/cuda_check.h"

namespace overlapbench {
namespace {

// Calls the driver's `symbol` in the ABI of `cuda_version`. Throws Error if it fails or does not
// exist.
template <class Function, class... Arguments>
void Call(const char* symbol, unsigned cuda_version, Arguments... arguments) {
  const auto function = reinterpret_cast<Function>(DriverEntryPoint(symbol, cuda_version));
  ThrowIfDriverFailed(function(arguments...), symbol);
}

CUdevice DeviceOf(int ordinal) {
  CUdevice device = 0;
  Call<PFN_cuDeviceGet_v2000>("cuDeviceGet", 2000, &device, ordinal);
  return device;
}

CUdevResource AllSms(int ordinal) {
  CUdevResource all{};
  Call<PFN_cuDeviceGetDevResource_v12040>("cuDeviceGetDevResource", 12040, DeviceOf(ordinal), &all,
                                          CU_DEV_RESOURCE_TYPE_SM);
  return all;
}

int SmsIn(const CUdevResource& resource) { return static_cast<int>(resource.sm.smCount); }

// The driver's answer to a request for `sms` of these SMs. The same request gets the same SMs.
CUdevResource PartOf(const CUdevResource& all, int sms) {
  if (sms == SmsIn(all)) return all;
  CUdevResource part{};
  unsigned parts = 1;
  Call<PFN_cuDevSmResourceSplitByCount_v12040>("cuDevSmResourceSplitByCount", 12040, &part, &parts,
                                               &all, nullptr, 0U, static_cast<unsigned>(sms));
  return part;
}

// How many SMs a request for `sms` gets; 0 if it is refused.
int Granted(const CUdevResource& all, int sms) {
  try {
    return SmsIn(PartOf(all, sms));
  } catch (const Error&) {
    return 0;
  }
}

}  // namespace

SmPartition::SmPartition(int ordinal, int sms)
    : destroy_(reinterpret_cast<PFN_cuGreenCtxDestroy_v12040>(
          DriverEntryPoint("cuGreenCtxDestroy", 12040))) {
  CUdevResource part = PartOf(AllSms(ordinal), sms);
  if (SmsIn(part) != sms)
    throw Error(fmt::format("a partition of {} SMs would have {}", sms, SmsIn(part)));
  CUdevResourceDesc description = nullptr;
  Call<PFN_cuDevResourceGenerateDesc_v12040>("cuDevResourceGenerateDesc", 12040, &description,
                                             &part, 1U);
  Call<PFN_cuGreenCtxCreate_v12040>("cuGreenCtxCreate", 12040, &context_, description,
                                    DeviceOf(ordinal), CU_GREEN_CTX_DEFAULT_STREAM);
}

SmPartition::~SmPartition() { destroy_(context_); }

SmPartitions SmPartition::Sizes(int ordinal) {
  try {
    const CUdevResource all = AllSms(ordinal);
    SmPartitions sizes;
    sizes.least = Granted(all, 1);
    sizes.step = Granted(all, sizes.least + 1) - sizes.least;
    if (sizes.least <= 0 || sizes.step <= 0) return {};
    sizes.most = (SmsIn(all) - 1) / sizes.step * sizes.step;
    while (sizes.most > 0 && Granted(all, sizes.most) != sizes.most) sizes.most -= sizes.step;
    return sizes;
  } catch (const Error&) {
    return {};  // the driver is older than green contexts
  }
}

cudaStream_t SmPartition::CreateStream(int native_priority) const {
  CUstream stream = nullptr;
  Call<PFN_cuGreenCtxStreamCreate_v12050>("cuGreenCtxStreamCreate", 12050, &stream, context_,
                                          static_cast<unsigned>(CU_STREAM_NON_BLOCKING),
                                          native_priority);
  return stream;
}

}  // namespace overlapbench
