// Nccl: NVIDIA's library of collectives, opened at run time (device/dynamic_library.h).
#pragma once

#include <fmt/core.h>
#include <nccl.h>

#include "device/dynamic_library.h"

namespace overlapbench {

struct Nccl : DynamicLibrary {
  Nccl() : DynamicLibrary("a run on GPUs needs NCCL", fmt::format("libnccl.so.{}", NCCL_MAJOR)) {}

  LIBRARY_FUNCTION(get_version, ncclGetVersion);
  LIBRARY_FUNCTION(get_error_string, ncclGetErrorString);
  LIBRARY_FUNCTION(get_last_error, ncclGetLastError);
  LIBRARY_FUNCTION(get_unique_id, ncclGetUniqueId);
  LIBRARY_FUNCTION(init_rank, ncclCommInitRankConfig);
  LIBRARY_FUNCTION(get_async_error, ncclCommGetAsyncError);
  LIBRARY_FUNCTION(abort, ncclCommAbort);
  LIBRARY_FUNCTION(allocate, ncclMemAlloc);
  LIBRARY_FUNCTION(free, ncclMemFree);
  LIBRARY_FUNCTION(group_start, ncclGroupStart);
  LIBRARY_FUNCTION(group_end, ncclGroupEnd);
  LIBRARY_FUNCTION(all_reduce, ncclAllReduce);
  LIBRARY_FUNCTION(all_gather, ncclAllGather);
  LIBRARY_FUNCTION(reduce_scatter, ncclReduceScatter);
  LIBRARY_FUNCTION(broadcast, ncclBroadcast);
  LIBRARY_FUNCTION(send, ncclSend);
  LIBRARY_FUNCTION(receive, ncclRecv);
  // The library may be older than the header.
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 28, 0)
  OPTIONAL_LIBRARY_FUNCTION(register_window, ncclCommWindowRegister);
  OPTIONAL_LIBRARY_FUNCTION(deregister_window, ncclCommWindowDeregister);
  OPTIONAL_LIBRARY_FUNCTION(all_to_all, ncclAlltoAll);
#endif
};

// Opened by the first call, which throws Error if NCCL is missing or lacks one of these functions.
inline const Nccl& TheNccl() {
  static const Nccl library;
  return library;
}

}  // namespace overlapbench
