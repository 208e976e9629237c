// Replaces cuda/peer_communicator.cc and cuda/stand_in.cu in a build without CUDA.
#include "comm/communicator.h"
#include "comm/stand_in.h"

namespace overlapbench {

std::string PeersUnavailable(const Machine& /*machine*/) {
  return "needs GPUs, and this build has no cuda backend";
}

std::shared_ptr<PeerMemory> MakePeerMemory(const Machine& machine) {
  throw Error(PeersUnavailable(machine));
}

std::unique_ptr<Communicator> MakePeerCommunicator(const Machine& machine,
                                                   const PeerOptions& /*options*/,
                                                   std::shared_ptr<PeerMemory> /*memory*/) {
  throw Error(PeersUnavailable(machine));
}

std::unique_ptr<Workload> MakeStandIn(const Machine& machine, std::size_t /*most_span_bytes*/,
                                      std::function<StandInOptions()> /*options*/) {
  throw Error(PeersUnavailable(machine));
}

}  // namespace overlapbench
