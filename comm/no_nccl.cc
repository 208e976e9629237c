// Replaces nccl_communicator.cc in a build without NCCL.
#include "comm/communicator.h"

namespace overlapbench {

void LoadNccl() {}

std::string NcclUnavailable() {
  return "this build has no NCCL (nccl.h was not found when it was made)";
}

std::string NcclUnavailable(const NcclOptions& /*options*/) { return NcclUnavailable(); }

std::string NcclVersion() { return ""; }

std::string NcclNetwork(const Machine& /*machine*/) { return ""; }

std::unique_ptr<Communicator> MakeNcclCommunicator(const Machine& /*machine*/,
                                                   const NcclOptions& /*options*/) {
  throw Error(NcclUnavailable());
}

}  // namespace overlapbench
