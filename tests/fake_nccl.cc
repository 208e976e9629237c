// A fake NCCL 2.26, for tests without a GPU: it has the functions that the suite needs, but no
// windows. Only its version can be called.
extern "C" {

int ncclGetVersion(int* version) {
  *version = 22605;
  return 0;
}

#define MISSING(function) \
  int function() { return 1; }
MISSING(ncclGetErrorString)
MISSING(ncclGetLastError)
MISSING(ncclGetUniqueId)
MISSING(ncclCommInitRankConfig)
MISSING(ncclCommGetAsyncError)
MISSING(ncclCommAbort)
MISSING(ncclMemAlloc)
MISSING(ncclMemFree)
MISSING(ncclGroupStart)
MISSING(ncclGroupEnd)
MISSING(ncclAllReduce)
MISSING(ncclAllGather)
MISSING(ncclReduceScatter)
MISSING(ncclBroadcast)
MISSING(ncclSend)
MISSING(ncclRecv)
#undef MISSING

}  // extern "C"
