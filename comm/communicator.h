// Communicator: carries out collectives over NCCL, over MPI, or over the other GPUs' memory, and
// sends and receives over NCCL or MPI.
//
// Operations are enqueued on a stream and complete in its order, like kernels. All ranks make the
// same calls in the same order. For a send, only the receiver makes a call, the matching receive;
// sends from one rank to another are received in order. Operations on different streams that must
// not wait for each other need separate communicators: channels.
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
  kShiftRing,  // to rank + `shift` (mod ranks)
  kSend,       // to `peer`
  kReceive,    // from `peer`
};

// Whether the operation computes sums.
constexpr bool Adds(Operation operation) {
  return operation == Operation::kAllReduce || operation == Operation::kReduceScatter;
}

// Whether the operation is between two ranks.
constexpr bool IsPointToPoint(Operation operation) {
  return operation == Operation::kSend || operation == Operation::kReceive;
}

// Pointers are into device memory from Allocate, at the same offset on all ranks. For a send,
// `receive` is the receiver's buffer. In place, the smaller of the two buffers is this rank's
// segment of the larger one.
struct CollectiveCall {
  Operation operation = Operation::kAllGather;
  const void* send = nullptr;
  void* receive = nullptr;
  void* scratch = nullptr;  // of scratch_bytes()
  long count = 0;           // elements of the larger buffer
  long segment = 0;         // count / ranks
  Element element = Element::kFloat32;
  int shift = 1;  // for kShiftRing; below the number of ranks
  // For kAllToAll: nothing moves within a rank. Its own segment of `receive` stays unchanged.
  bool own_stays = false;
  int peer = 0;  // for a send or receive
};

class Communicator {
 public:
  virtual ~Communicator() = default;
  [[nodiscard]] virtual int rank() const = 0;
  [[nodiscard]] virtual int size() const = 0;
  // Memory that the operations can work on. All ranks allocate the same sizes in the same order.
  virtual Buffer Allocate(std::size_t bytes) = 0;
  // The scratch memory, from Allocate, that the operation needs beside its two buffers.
  [[nodiscard]] virtual std::size_t scratch_bytes(const CollectiveCall& /*call*/) const {
    return 0;
  }
  virtual void Enqueue(Stream& stream, const CollectiveCall& call) = 0;
  // Starts all-reduces of different data together if the library can (NCCL's groups), possibly in
  // one kernel. Otherwise enqueues them one after the other.
  virtual void AllReduceTogether(Stream& stream, std::span<const CollectiveCall> calls) {
    for (const CollectiveCall& call : calls) Enqueue(stream, call);
  }
  // What executes `call`, and whether that is what was requested.
  struct Proof {
    std::optional<long> sms;  // used by its kernel; nullopt if unknown
    std::string fault;        // what ran instead; "" if nothing else did
  };
  // Called by all ranks together; ranks that take no part in a send pass a count of 0.
  virtual Proof Prove(const CollectiveCall& call) = 0;
};

std::unique_ptr<Communicator> MakeMpiCommunicator(const Machine& machine, int channel = 0);

// Options of NCCL's communicator. NCCL treats the CTA counts as limits (ncclConfig_t).
struct NcclOptions {
  int ctas = 0;  // both minimum and maximum; 0: NCCL's choice
  // Allocates buffers in symmetric windows, which NCCL's symmetric kernels and its collectives by
  // copy engine need.
  bool symmetric = false;
  bool copy_engines = false;  // CTA policy zero
  int channel = 0;            // separates communicators that must not wait for each other
  auto operator<=>(const NcclOptions&) const = default;
};
std::unique_ptr<Communicator> MakeNcclCommunicator(const Machine& machine,
                                                   const NcclOptions& options);
// Opens NCCL, unless this build has none. Throws Error if it is not installed.
void LoadNccl();
// Why NCCL is unavailable ("" if it is available), and its version.
std::string NcclUnavailable();
std::string NcclVersion();
// The network that NCCL uses between the ranks' hosts: "Socket", "IB"; "" if all are on one host or
// the name is unknown (nccl_log.h). Connects the ranks, as the process's first use of NCCL.
std::string NcclNetwork(const Machine& machine);
// Why NCCL does not support these options; "" if it does.
std::string NcclUnavailable(const NcclOptions& options);

// Options of collectives over the other GPUs' memory (comm/cuda/peer_communicator.cc).
enum class PeerEngine : std::uint8_t { kCopy, kSmLoad, kSmStore, kSmBulk };
struct PeerOptions {
  PeerEngine engine = PeerEngine::kCopy;
  int sms = 0;  // of the kernel; for kCopy, of the kernel that adds
};
// The memory that these communicators allocate. Those that share it may work on each other's
// buffers.
class PeerMemory;
std::shared_ptr<PeerMemory> MakePeerMemory(const Machine& machine);
std::unique_ptr<Communicator> MakePeerCommunicator(const Machine& machine,
                                                   const PeerOptions& options,
                                                   std::shared_ptr<PeerMemory> memory);
// Why this machine does not support collectives over peers' memory; "" if it does.
std::string PeersUnavailable(const Machine& machine);

}  // namespace overlapbench
