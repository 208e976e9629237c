// SmPartition: a subset of a GPU's SMs, for streams whose kernels run only on these.
//
//   const SmPartition half(ordinal, 64);
//   const cudaStream_t stream = half.CreateStream(priority);
//   Kernel<<<blocks, threads, 0, stream>>>(...);   // at most 64 SMs, whatever else is free
//   cudaStreamDestroy(stream);                     // before the partition ends
//
// It is a green context (CUDA Driver API, "Green Contexts"), which belongs to the device's primary
// context and never becomes current. Its streams therefore accept the runtime's ordinary launches,
// copies, memory and events: cuEventRecord requires the event and the stream to share a context,
// which is the primary one here (see cuGreenCtxRecordEvent), and cuStreamWaitEvent accepts events
// of any context. Other streams may still use these SMs.
//
// The driver splits between groups of SMs that share hardware, and rounds a request up: on Hopper
// to a multiple of eight, so that clusters still fit. SmPartition rejects sizes that the driver
// would round, because a row named after another size would mislead. All SMs are a partition too:
// it limits nothing and shows the cost of a green context itself.
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

  // The sizes that the driver grants exactly; none if it has no green contexts.
  [[nodiscard]] static SmPartitions Sizes(int ordinal);

  // The caller destroys the stream before the partition ends. `native_priority` is CUDA's number.
  [[nodiscard]] cudaStream_t CreateStream(int native_priority) const;

 private:
  PFN_cuGreenCtxDestroy_v12040 destroy_;
  CUgreenCtx context_ = nullptr;
};

}  // namespace overlapbench
