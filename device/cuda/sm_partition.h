// SmPartition: a subset of a GPU's SMs, for streams whose kernels run only on these.
//
//   const SmPartition half(ordinal, 64);
//   const cudaStream_t stream = half.CreateStream(priority);
//   Kernel<<<blocks, threads, 0, stream>>>(...);   // at most 64 SMs, whatever else is free
//   cudaStreamDestroy(stream);                     // before the partition ends
//
// It is a green context (CUDA Driver API, "Green Contexts"), which belongs to the device's primary
// context and never becomes current. So its streams take ordinary launches, copies, memory and
// events of the runtime: cuEventRecord wants an event and a stream of one context, and
// cuGreenCtxRecordEvent says that the primary context is meant; cuStreamWaitEvent takes an event of
// any. Other streams are not kept off these SMs.
//
// The driver splits at groups of SMs that share hardware, and rounds a request up: on Hopper to
// eight, so that clusters still fit. Sizes that it would round are refused here, because a result
// whose number differs from its name would mislead. All SMs are a partition too: it limits nothing
// and shows the cost of a green context itself.
//
// Only the kernel itself can tell which SMs it ran on (fixtures/sm_census.h). Documented exceptions
// are MPS with a limited share of threads, and two more SMs on Hopper once a module with dynamic
// parallelism was loaded.
#pragma once

#include <cudaTypedefs.h>
#include <cuda_runtime.h>

#include "device/device.h"

namespace overlapbench {

class SmPartition {
 public:
  // Throws Error if the driver has no partition of exactly `sms` SMs.
  SmPartition(int ordinal, int sms);
  ~SmPartition();
  SmPartition(const SmPartition&) = delete;
  SmPartition& operator=(const SmPartition&) = delete;

  // The sizes that the driver grants as they are; none where it has no green contexts.
  [[nodiscard]] static SmPartitions Sizes(int ordinal);

  // The caller destroys it, before the partition ends. `native_priority` is CUDA's number.
  [[nodiscard]] cudaStream_t CreateStream(int native_priority) const;

 private:
  PFN_cuGreenCtxDestroy_v12040 destroy_;
  CUgreenCtx context_ = nullptr;
};

}  // namespace overlapbench
