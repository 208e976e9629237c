// Transports: how a collective's data moves from GPU to GPU.
//
//   nccl      NCCL with its defaults, or with a number of CTAs (comm_ctas)
//   nccl_ce   NCCL by copy engine
//   nccl_sym  NCCL's kernels for symmetric memory
//   copy      peer copies by copy engine
//   sm_load   a kernel of ours that reads the peers' memory, with a number of SMs (comm_sms)
//   sm_store  a kernel of ours that writes to the peers' memory; short messages go as mail
//             (comm/cuda/peer_mail.h)
//   sm_bulk   the same by bulk copies, which need fewer SMs; no mail
//   mpi       on the host backend: OpenMPI
//
// All are communicators (comm/communicator.h). comm/peer_plan.h describes which rank moves what in
// the suite's own. A row whose transport did not work as requested is invalid
// (Communicator::Prove).
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "workload/workload.h"

namespace overlapbench {

// The most SMs that a kernel of ours uses: one flag each (kMostPeerBlocks).
inline constexpr long kMostCommSms = 256;

// The axes of every collective: transport, and on GPUs how many CTAs or SMs it uses.
std::vector<Axis> TransportAxes(const Machine& machine);

// Why a transport cannot carry the operations of one work at these settings; "" if it can. Settings
// are those of a collective. `own_stays`: see CollectiveCall.
std::string NoTransport(const Machine& machine, const std::vector<Operation>& operations,
                        const Settings& settings, bool own_stays = false);

// Whether the transport of these settings moves data by copy engine.
bool IsByCopyEngine(const Settings& settings);

// The communicators of a run, each made when it is first needed.
class Transports {
 public:
  explicit Transports(const Machine& machine) : machine_(machine) {}
  virtual ~Transports() = default;
  Transports(const Transports&) = delete;
  Transports& operator=(const Transports&) = delete;
  // Called by all ranks together. `channel`: see communicator.h.
  virtual std::shared_ptr<Communicator> Connect(const Settings& settings, int channel = 0);

 private:
  Machine machine_;
  // NCCL takes a second to connect, and its communicators can be shared. A peer communicator's
  // flags and scratch memory belong to one workload; its buffers are accessible to all of them.
  std::map<NcclOptions, std::shared_ptr<Communicator>> of_nccl_;
  std::shared_ptr<PeerMemory> of_peers_;
  std::map<int, std::shared_ptr<Communicator>> of_mpi_;  // by channel
};

}  // namespace overlapbench
