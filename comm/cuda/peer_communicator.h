// PeerCommunicator: the suite's own collectives, over the memory of the other GPUs on this node.
//
// Each rank has mapped the buffers of all others (comm/cuda/peer_memory.h) and executes its part of
// a plan (comm/peer_plan.h). What executes it is an engine, a class derived from this one: copy
// engines (peer_copies.cc), or a kernel with a given number of SMs (peer_kernels.cc).
#pragma once

#include <memory>
#include <vector>

#include "comm/communicator.h"
#include "comm/cuda/peer_board.h"
#include "comm/cuda/peer_memory.h"
#include "comm/cuda/peer_move.h"
#include "comm/peer_plan.h"

namespace overlapbench {

class PeerCommunicator : public Communicator {
 public:
  PeerCommunicator(const Machine& machine, std::shared_ptr<PeerMemory> memory, bool has_mail);

  [[nodiscard]] int rank() const override { return machine_.ranks.rank(); }
  [[nodiscard]] int size() const override { return machine_.ranks.size(); }
  Buffer Allocate(std::size_t bytes) override { return memory_->Allocate(bytes); }
  [[nodiscard]] std::size_t scratch_bytes(const CollectiveCall& call) const override;
  void Enqueue(Stream& stream, const CollectiveCall& call) override;

 protected:
  // ---- What an engine implements, and Prove
  [[nodiscard]] virtual Direction DirectionOf(const CollectiveCall& call) const = 0;
  virtual void Execute(Stream& stream, const CollectiveCall& call) = 0;

  // ---- What it may use
  [[nodiscard]] const Machine& machine() const { return machine_; }
  [[nodiscard]] const PeerMemory& memory() const { return *memory_; }
  [[nodiscard]] PeerBoard& board() { return board_; }
  [[nodiscard]] PeerProblem ProblemOf(const CollectiveCall& call) const;
  [[nodiscard]] std::vector<MovePhase> PhasesOf(const CollectiveCall& call) const;
  // `phases`, with the addresses of the call's buffers on all ranks.
  [[nodiscard]] AddressedPlan WithAddresses(const CollectiveCall& call,
                                            const std::vector<MovePhase>& phases) const;

 private:
  Machine machine_;
  std::shared_ptr<PeerMemory> memory_;
  PeerBoard board_;
};

// The engines: copy engines, and the kernels of all others.
std::unique_ptr<Communicator> MakeCopyEngines(const Machine& machine, const PeerOptions& options,
                                              std::shared_ptr<PeerMemory> memory);
std::unique_ptr<Communicator> MakePeerKernels(const Machine& machine, const PeerOptions& options,
                                              std::shared_ptr<PeerMemory> memory);

}  // namespace overlapbench
