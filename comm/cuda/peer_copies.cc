// Collectives, sends and receives by copy engines, which take no SM unless they add.
//
// Engine copies are ordinary copies in a stream. Streams of different ranks meet by writing a word
// to the peer's board and waiting for the peer's (comm/cuda/peer_board.h).

#include <cudaTypedefs.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <array>
#include <bit>
#include <map>
#include <vector>

#include "comm/cuda/peer_communicator.h"
#include "device/cuda/cuda_check.h"
#include "device/cuda/cuda_stream.h"
#include "device/cuda/sm_hold.h"

namespace overlapbench {
namespace {

// Signals between the streams of different ranks. Each has a channel: a phase of collectives, or
// one of two for sends.
class StreamSignals {
 public:
  static constexpr std::size_t kMayWrite = PackedMoves::kMostPhases;
  static constexpr std::size_t kHasWritten = kMayWrite + 1;

  StreamSignals(const PeerBoard& board, int rank, int ranks)
      : board_(board),
        rank_(rank),
        ranks_(ranks),
        batch_memory_operations_(reinterpret_cast<PFN_cuStreamBatchMemOp_v11070>(
            DriverEntryPoint("cuStreamBatchMemOp", 11070))) {}

  using Operation = CUstreamBatchMemOpParams;
  // Writes the number to `peer`.
  [[nodiscard]] Operation Give(int peer, std::size_t channel, std::uint32_t number) const {
    Operation operation{};
    operation.writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
    operation.writeValue.address = board_.StreamWord(peer, rank_, channel);
    operation.writeValue.value = number;
    operation.writeValue.flags = CU_STREAM_WRITE_VALUE_DEFAULT;
    return operation;
  }
  // Waits until `peer` has written the number to this rank.
  [[nodiscard]] Operation Await(int peer, std::size_t channel, std::uint32_t number) const {
    Operation operation{};
    operation.waitValue.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32;
    operation.waitValue.address = board_.StreamWord(rank_, peer, channel);
    operation.waitValue.value = number;
    operation.waitValue.flags = CU_STREAM_WAIT_VALUE_GEQ;
    return operation;
  }
  // Enqueues them in this order, as one entry of the stream's queue. A queue takes 1,021 entries
  // (H100, driver 580): with one for each signal and each copy, 24 all-gathers of eight ranks
  // filled the queues behind a closed start gate.
  void Enqueue(Stream& stream, std::vector<Operation> operations) const {
    if (operations.empty()) return;
    ThrowIfDriverFailed(
        batch_memory_operations_(static_cast<CUstream>(NativeStream(stream)),
                                 static_cast<unsigned>(operations.size()), operations.data(), 0),
        "cuStreamBatchMemOp");
  }
  // The streams of all ranks meet before a phase.
  void Meet(Stream& stream, std::size_t phase) {
    const std::uint32_t meeting = ++meetings_.at(phase);
    std::vector<Operation> operations;
    for (int peer = 0; peer < ranks_; ++peer)
      if (peer != rank_) operations.push_back(Give(peer, phase, meeting));
    for (int peer = 0; peer < ranks_; ++peer)
      if (peer != rank_) operations.push_back(Await(peer, phase, meeting));
    Enqueue(stream, std::move(operations));
  }

 private:
  const PeerBoard& board_;
  int rank_;
  int ranks_;
  PFN_cuStreamBatchMemOp_v11070 batch_memory_operations_;
  std::array<std::uint32_t, PackedMoves::kMostPhases> meetings_{};  // by phase
};

// Whether what `enqueue` enqueues finishes on all ranks while the SMs of all GPUs are held. Called
// by all ranks together; all get the same result. The proof is one-sided: work that finishes used
// no SM, but work that does not may merely have been enqueued late on one rank. So there are
// several attempts.
bool TakesNoSms(Device& device, Ranks& ranks, const std::function<void(Stream&)>& enqueue) {
  constexpr int kAttempts = 3;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    std::array<double, 1> unfinished = {1};
    // In a step, an error on one rank ends the attempt on all before they compare their results.
    ranks.Together("proving that copies take no SM", [&] {
      const auto hold = [&](const auto& step) { ranks.Together("holding all SMs", step); };
      if (FinishesWithoutSms(device, {enqueue, hold, ranks.timeout()})) unfinished[0] = 0;
    });
    ranks.Max(unfinished, "agreeing on whether copies took SMs");
    if (unfinished[0] == 0) return true;
  }
  return false;
}

class CopyEngines : public PeerCommunicator {
 public:
  CopyEngines(const Machine& machine, int sms, std::shared_ptr<PeerMemory> memory)
      : PeerCommunicator(machine, std::move(memory), false),
        sms_(sms),
        signals_(board(), rank(), size()),
        forked_(machine.device.CreateEvent({.timed = false})) {}

  void Enqueue(Stream& stream, const CollectiveCall& call) override {
    if (!IsPointToPoint(call.operation)) return PeerCommunicator::Enqueue(stream, call);
    ThrowIfRecorded(stream);
    if (call.operation == Operation::kSend) return Send(stream, call);
    Receive(stream, call);
  }

  // Runs only the copies to peers, in one piece, because sums and copies within the GPU use SMs. If
  // ranks share a GPU, nothing can be proven.
  Proof Prove(const CollectiveCall& call) override {
    Proof proven{scratch_bytes(call) > 0 ? sms_ : 0, ""};
    if (machine().shares_gpus) return proven.sms > 0 ? proven : Proof{};
    const auto enqueue = [&](Stream& stream) {
      if (call.count == 0) return;
      if (IsPointToPoint(call.operation)) return Enqueue(stream, call);
      EnqueueCopies(stream, WithAddresses(call, MovesToPeers(PhasesOf(call), rank())));
    };
    if (TakesNoSms(machine().device, machine().ranks, enqueue)) return proven;
    return {{},
            "the copies did not finish while all SMs were held, so copy engines may not have made "
            "them"};
  }

 protected:
  [[nodiscard]] Direction DirectionOf(const CollectiveCall& /*call*/) const override {
    return Direction::kStore;
  }
  void Execute(Stream& stream, const CollectiveCall& /*call*/, const AddressedPlan& plan) override {
    EnqueueCopies(stream, plan);
  }

 private:
  // ---- Sends and receives
  //
  // The receiver signals when its memory may be written to, and the sender when it has written.
  // Neither needs an SM, so a receive may be posted as soon as its memory is free.

  void Send(Stream& stream, const CollectiveCall& call) {
    const std::uint32_t number = ++sent_.at(call.peer);
    const CopyPiece piece = {memory().Locate(call.receive).At(call.peer), call.send,
                             call.count * SizeOf(call.element)};
    signals_.Enqueue(stream, {signals_.Await(call.peer, StreamSignals::kMayWrite, number)});
    EnqueueEngineCopies(stream, {&piece, 1});
    signals_.Enqueue(stream, {signals_.Give(call.peer, StreamSignals::kHasWritten, number)});
  }
  void Receive(Stream& stream, const CollectiveCall& call) {
    const std::uint32_t number = ++received_.at(call.peer);
    signals_.Enqueue(stream, {signals_.Give(call.peer, StreamSignals::kMayWrite, number),
                              signals_.Await(call.peer, StreamSignals::kHasWritten, number)});
  }

  // ---- Collectives

  // The streams that carry a phase, piece by piece. `here` meets the other ranks, then adds and
  // copies within this GPU, which takes SMs; `out` copies to the peers meanwhile by copy engine.
  struct Lane {
    std::unique_ptr<Stream> here;
    std::unique_ptr<Stream> out;
    std::unique_ptr<Event> here_done;
    std::unique_ptr<Event> out_done;
  };
  using Lanes = std::vector<Lane>;  // by phase

  // The lanes with `stream`'s priority: their sums need SMs as its kernels do.
  Lanes& LanesFor(Stream& stream) {
    Device& device = machine().device;
    const int priority = device.PriorityOf(stream);
    Lanes& lanes = lanes_[priority];
    while (lanes.size() < PackedMoves::kMostPhases)
      lanes.push_back({device.CreateStream({.priority = priority}),
                       device.CreateStream({.priority = priority}),
                       device.CreateEvent({.timed = false}), device.CreateEvent({.timed = false})});
    return lanes;
  }

  // Sums are computed in pieces: while a kernel adds one piece, engines copy others. Without sums
  // the engines are always busy anyway.
  static std::size_t PiecesOf(const AddressedPlan& plan) {
    const auto adds = [](const auto& phase) { return !phase.empty() && phase[0].sources > 1; };
    if (!std::ranges::any_of(plan.phases, adds)) return 1;
    // Each piece needs another meeting: eight pieces pay only if each of them is long.
    constexpr std::size_t kLeastBytes = 8UL << 20;
    constexpr std::size_t kLeastBytesOfMany = 32UL << 20;
    return std::max(std::clamp<std::size_t>(plan.bytes() / kLeastBytes, 1, 4),
                    std::clamp<std::size_t>(plan.bytes() / kLeastBytesOfMany, 1, 8));
  }

  void EnqueueCopies(Stream& stream, const AddressedPlan& plan) {
    const std::size_t pieces = PiecesOf(plan);
    const std::size_t words = plan.bytes() / kPeerWordBytes;
    Lanes& lanes = LanesFor(stream);
    stream.Record(*forked_);
    lanes[0].here->Wait(*forked_);
    for (std::size_t i = 0; i < pieces; ++i) {
      const std::size_t begin = words * i / pieces * kPeerWordBytes;
      const std::size_t end = words * (i + 1) / pieces * kPeerWordBytes;
      for (std::size_t phase = 0; phase < plan.phases.size(); ++phase) {
        if (phase > 0) Follow(lanes[phase], lanes[phase - 1]);
        EnqueuePiece(lanes[phase], phase, plan, begin, end - begin);
      }
    }
    Lane& last = lanes[plan.phases.size() - 1];
    last.here->Wait(*last.out_done);
    signals_.Meet(*last.here, plan.phases.size() - 1);
    last.here->Record(*last.here_done);
    stream.Wait(*last.here_done);
  }

  static void Follow(Lane& lane, const Lane& earlier) {
    lane.here->Wait(*earlier.here_done);
    lane.here->Wait(*earlier.out_done);
  }

  void EnqueuePiece(Lane& lane, std::size_t phase, const AddressedPlan& plan,
                    std::size_t first_byte, std::size_t bytes) {
    // Phase 0 needs one meeting only, for the first piece.
    if (phase > 0 || first_byte == 0) signals_.Meet(*lane.here, phase);
    lane.here->Record(*lane.here_done);
    lane.out->Wait(*lane.here_done);
    std::vector<CopyPiece> within;
    std::vector<CopyPiece> to_peers;
    for (AddressedMove move : plan.phases[phase]) {
      for (int i = 0; i < move.sources; ++i)
        move.from[i] = static_cast<const std::byte*>(move.from[i]) + first_byte;
      for (int i = 0; i < move.destinations; ++i)
        move.to[i] = static_cast<std::byte*>(move.to[i]) + first_byte;
      if (move.sources > 1) EnqueueSum(lane, move, bytes, plan.element);
      for (int i = 0; i < move.destinations; ++i) {
        if (move.to[i] == move.from[0]) continue;
        ((move.within >> i & 1U) != 0 ? within : to_peers)
            .push_back({move.to[i], move.from[0], bytes});
      }
    }
    EnqueueEngineCopies(*lane.here, within);
    EnqueueEngineCopies(*lane.out, to_peers);
    lane.here->Record(*lane.here_done);
    lane.out->Record(*lane.out_done);
  }

  // Engines cannot add. A kernel adds into the destination on this GPU, and the sum is then copied
  // from there to the others.
  void EnqueueSum(Lane& lane, AddressedMove& move, std::size_t bytes, Element element) const {
    AddressedMove sum = move;
    sum.to[0] = move.to[std::countr_zero(move.within)];
    sum.destinations = 1;
    EnqueueOwnMoves(*lane.here, sms_,
                    {{{sum}}, static_cast<long>(bytes / SizeOf(element)), element, false});
    lane.here->Record(*lane.here_done);
    lane.out->Wait(*lane.here_done);
    move.from[0] = sum.to[0];
  }

  int sms_;
  StreamSignals signals_;
  std::map<int, Lanes> lanes_;  // by priority
  std::unique_ptr<Event> forked_;
  std::array<std::uint32_t, kMostPeers> sent_{};  // so far, by peer
  std::array<std::uint32_t, kMostPeers> received_{};
};

}  // namespace

std::unique_ptr<Communicator> MakeCopyEngines(const Machine& machine, const PeerOptions& options,
                                              std::shared_ptr<PeerMemory> memory) {
  return std::make_unique<CopyEngines>(machine, options.sms, std::move(memory));
}

}  // namespace overlapbench
