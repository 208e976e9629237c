#include "comm/cuda/peer_communicator.h"

#include <cuda_runtime.h>
#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "comm/cuda/peer_mail.h"
#include "device/cuda/cuda_check.h"
#include "device/cuda/cuda_stream.h"
#include "device/cuda/shared_memory.h"

namespace overlapbench {
namespace {

// The ring moves its whole buffer as one segment.
long SegmentOf(const CollectiveCall& call) {
  return call.operation == Operation::kShiftRing ? call.count : call.segment;
}

}  // namespace

PeerCommunicator::PeerCommunicator(const Machine& machine, std::shared_ptr<PeerMemory> memory,
                                   bool has_mail)
    : machine_(machine), memory_(std::move(memory)), board_(machine, has_mail) {}

std::size_t PeerCommunicator::scratch_bytes(const CollectiveCall& call) const {
  if (!Adds(call.operation)) return 0;
  return ScratchCount(ProblemOf(call), DirectionOf(call)) * SizeOf(call.element);
}

void PeerCommunicator::Enqueue(Stream& stream, const CollectiveCall& call) {
  board_.set_recorded(IsRecorded(stream));
  // A kernel that finds its data misaligned would end the CUDA context.
  const std::size_t segment_bytes = SegmentOf(call) * SizeOf(call.element);
  if (segment_bytes % kPeerWordBytes != 0)
    throw Error(fmt::format("a rank's part of {} bytes is not a multiple of {}", segment_bytes,
                            kPeerWordBytes));
  Execute(stream, call);
}

PeerProblem PeerCommunicator::ProblemOf(const CollectiveCall& call) const {
  const bool in_place = call.operation != Operation::kShiftRing &&
                        memory_->Locate(call.send).array == memory_->Locate(call.receive).array;
  const auto word = static_cast<long>(kPeerWordBytes / SizeOf(call.element));
  return {call.operation, size(), SegmentOf(call), in_place, 0, call.shift, call.own_stays, word};
}

std::vector<MovePhase> PeerCommunicator::PhasesOf(const CollectiveCall& call) const {
  return PeerPlan(ProblemOf(call), DirectionOf(call), rank());
}

AddressedPlan PeerCommunicator::WithAddresses(const CollectiveCall& call,
                                              const std::vector<MovePhase>& phases) const {
  const PeerProblem problem = ProblemOf(call);
  // In place, the larger of the two buffers begins first.
  const void* const larger = std::min(call.send, static_cast<const void*>(call.receive));
  const std::array buffers = {memory_->Locate(problem.in_place ? larger : call.send),
                              memory_->Locate(problem.in_place ? larger : call.receive),
                              memory_->Locate(call.scratch)};
  const auto address = [&](const Place& place) {
    const std::size_t offset = place.first * SizeOf(call.element);
    if (place.buffer == PeerBuffer::kMail) return board_.Mail(place.rank) + kMailFactor * offset;
    return buffers[static_cast<std::size_t>(place.buffer)].At(place.rank) + offset;
  };
  const auto words = [element = call.element](long count) {
    return count * static_cast<long>(SizeOf(element)) / static_cast<long>(kPeerWordBytes);
  };
  AddressedPlan plan{{}, words(MoveCount(problem, DirectionOf(call))), call.element, false};
  for (const MovePhase& phase : phases) {
    plan.phases.emplace_back();
    plan.ends_at_peers = false;
    for (const Move& move : phase) {
      AddressedMove& addressed = plan.phases.back().emplace_back();
      addressed.words = words(move.count);
      for (const Place& place : move.from) {
        if (place.buffer == PeerBuffer::kMail) addressed.mail |= 1U << addressed.sources;
        if (place.rank != rank()) addressed.remote |= 1U << addressed.sources;
        addressed.from[addressed.sources++] = address(place);
      }
      for (const Place& place : move.to) {
        if (place.rank == rank()) addressed.within |= 1U << addressed.destinations;
        addressed.to[addressed.destinations++] = address(place);
        plan.ends_at_peers |= place.rank != rank();
      }
    }
  }
  return plan;
}

std::string PeersUnavailable(const Machine& machine) {
  const Ranks& ranks = machine.ranks;
  if (ranks.size() > kMostPeers || ranks.hosts() > 1) {
    return fmt::format("supports 2 to {} ranks on one host; there are {} on {}", kMostPeers,
                       ranks.size(), ranks.hosts());
  }
  const int gpus = machine.shares_gpus ? std::min(VisibleGpus(), ranks.size()) : ranks.size();
  if (VisibleGpus() < gpus) return "needs all ranks' GPUs to be visible to each rank";
  int own = 0;
  CUDA_CHECK(cudaGetDevice(&own));
  for (int peer = 0; peer < gpus; ++peer) {
    int can = 1;
    if (peer != own) CUDA_CHECK(cudaDeviceCanAccessPeer(&can, own, peer));
    if (can == 0) return fmt::format("needs peer access from GPU {} to GPU {}", own, peer);
  }
  return NoSharedMemory();
}

std::unique_ptr<Communicator> MakePeerCommunicator(const Machine& machine,
                                                   const PeerOptions& options,
                                                   std::shared_ptr<PeerMemory> memory) {
  const auto make = options.engine == PeerEngine::kCopy ? MakeCopyEngines : MakePeerKernels;
  return make(machine, options, std::move(memory));
}

}  // namespace overlapbench
