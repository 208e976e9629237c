// Replaces cuda/peer_communicator.cc in a build without CUDA.
#include "comm/communicator.h"

namespace overlapbench {

std::string PeersUnavailable(const Machine& /*machine*/) {
  return "needs GPUs, and this build has no cuda backend";
}

std::unique_ptr<Communicator> MakePeerCommunicator(const Machine& machine,
                                                   const PeerOptions& /*options*/) {
  throw Error(PeersUnavailable(machine));
}

}  // namespace overlapbench
