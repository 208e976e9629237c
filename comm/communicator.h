// Communicator: carries out collectives over NCCL, over MPI, or over the other GPUs' memory, and
// sends and receives over NCCL or MPI.
//
// Operations are enqueued on a stream and complete in its order, like kernels. All ranks make the
// same calls in the same order. Of a send, its receiver makes the counterpart, and the others
// nothing: sends from one rank to another are received in their order. What must not wait for each
// other, on different streams, needs a communicator of its own: a channel.
//
// All ranks make a communicator, and allocate memory from it, as a step of Ranks::Together. If one
// rank fails, the others notice and give up, and the half-made communicator is aborted. A later
// step may make another one.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "device/device.h"
#include "ranks/ranks.h"
#include "workload/element.h"
#include "workload/workload.h"

namespace overlapbench {

enum class Operation : std::uint8_t {
  kAllToAll,
  kAllReduce,  // sums, like all reductions here
  kAllGather,
  kReduceScatter,
  kBroadcast,  // of rank 0's data
  kShiftRing,  // to the rank that is `shift` further
  kSend,       // to `peer`
  kReceive,    // from `peer`
};

// Whether the operation makes sums.
constexpr bool Adds(Operation operation) {
  return operation == Operation::kAllReduce || operation == Operation::kReduceScatter;
}

// Whether the operation is between two ranks.
constexpr bool IsPointToPoint(Operation operation) {
  return operation == Operation::kSend || operation == Operation::kReceive;
}

// Pointers are into device memory from Allocate, at the same offset on all ranks. Of a send,
// `receive` is where the receiver has what it receives. In place, the smaller of the two buffers is
// this rank's segment of the larger one.
struct CollectiveCall {
  Operation operation = Operation::kAllGather;
  const void* send = nullptr;
  void* receive = nullptr;
  void* scratch = nullptr;  // of scratch_bytes()
  long count = 0;           // elements of the larger buffer
  long segment = 0;         // count / ranks
  Element element = Element::kFloat32;
  int shift = 1;  // of kShiftRing, below the number of ranks
  // Of kAllToAll: nothing moves within a rank. Its own segment of `receive` is left alone.
  bool own_stays = false;
  int peer = 0;  // of a send or receive
};

class Communicator {
 public:
  virtual ~Communicator() = default;
  [[nodiscard]] virtual int rank() const = 0;
  [[nodiscard]] virtual int size() const = 0;
  // Memory that the operations can work on. All ranks allocate the same sizes in the same order.
  virtual Buffer Allocate(std::size_t bytes) = 0;
  // What the operation needs of such memory beside its two buffers.
  [[nodiscard]] virtual std::size_t scratch_bytes(const CollectiveCall& /*call*/) const {
    return 0;
  }
  virtual void Enqueue(Stream& stream, const CollectiveCall& call) = 0;
  // All-reduces of different data that start together, where the library can (NCCL's groups): it
  // may carry them by one kernel. Elsewhere one after the other.
  virtual void AllReduceTogether(Stream& stream, std::span<const CollectiveCall> calls) {
    for (const CollectiveCall& call : calls) Enqueue(stream, call);
  }
  // What carries out `call`, and whether that is what was asked for.
  struct Proof {
    std::optional<long> sms;  // that a kernel takes; none where it is not known
    std::string fault;        // "" or what ran instead
  };
  // Called by all ranks together; with a count of 0 by those that have no part in a send.
  virtual Proof Prove(const CollectiveCall& call) = 0;
};

std::unique_ptr<Communicator> MakeMpiCommunicator(const Machine& machine, int channel = 0);

// Of NCCL's communicator. Its counts of CTAs are limits for NCCL (ncclConfig_t).
struct NcclOptions {
  int ctas = 0;  // both the least and the most; 0: NCCL's choice
  // Buffers in windows that all ranks have at the same place, which NCCL's symmetric kernels and
  // its collectives by copy engine need.
  bool symmetric = false;
  bool copy_engines = false;  // CTA policy zero
  int channel = 0;            // tells communicators apart that must not wait for each other
  auto operator<=>(const NcclOptions&) const = default;
};
std::unique_ptr<Communicator> MakeNcclCommunicator(const Machine& machine,
                                                   const NcclOptions& options);
// Why NCCL is unavailable ("" if it is available), and its version.
std::string NcclUnavailable();
std::string NcclVersion();
// Why it cannot do what the options ask for; "" if it can.
std::string NcclUnavailable(const NcclOptions& options);

// Of collectives over the other GPUs' memory (comm/cuda/peer_communicator.cc).
enum class PeerEngine : std::uint8_t { kCopy, kSmLoad, kSmStore, kSmBulk };
struct PeerOptions {
  PeerEngine engine = PeerEngine::kCopy;
  int sms = 0;  // of the kernel; of kCopy, that adds
};
// What they allocate. Communicators that share it may work on each other's memory.
class PeerMemory;
std::shared_ptr<PeerMemory> MakePeerMemory(const Machine& machine);
std::unique_ptr<Communicator> MakePeerCommunicator(const Machine& machine,
                                                   const PeerOptions& options,
                                                   std::shared_ptr<PeerMemory> memory);
// Why this machine has no collectives over peers' memory; "" if it has.
std::string PeersUnavailable(const Machine& machine);

}  // namespace overlapbench
