// Collectives, sends and receives by copy engines, which take no SM unless they add.
//
// Engine copies are ordinary copies in a stream. Streams of different ranks meet by writing a word
// to the peer's board and waiting for the peer's (comm/cuda/peer_board.h).
//
// A plan of several phases is carried out in pieces (InSteps in comm/peer_plan.h): while the
// engines copy one piece, a kernel adds all arrivals of the one before. Before each step all ranks
// meet, though not every step needs it. An engine copies to one peer after the other, and ranks
// that drifted apart would send to one peer at the same time and to another not at all.
//
// Half of each move is carried out by another lane, with streams of its own, so that the engines
// have work while one lane is in a meeting.

#include <cudaTypedefs.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <map>
#include <vector>

#include "comm/cuda/peer_communicator.h"
#include "device/cuda/cuda_check.h"
#include "device/cuda/cuda_stream.h"
#include "device/cuda/sm_hold.h"

namespace overlapbench {
namespace {

constexpr int kMostLanes = 2;

// Signals between the streams of different ranks. Each has a channel: a lane of collectives, or one
// of two for sends.
class StreamSignals {
 public:
  static constexpr std::size_t kMayWrite = kMostLanes;
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
  // The streams of this lane meet on all ranks.
  void Meet(Stream& stream, std::size_t lane) {
    const std::uint32_t meeting = ++meetings_.at(lane);
    std::vector<Operation> operations;
    for (int peer = 0; peer < ranks_; ++peer)
      if (peer != rank_) operations.push_back(Give(peer, lane, meeting));
    for (int peer = 0; peer < ranks_; ++peer)
      if (peer != rank_) operations.push_back(Await(peer, lane, meeting));
    Enqueue(stream, std::move(operations));
  }

 private:
  const PeerBoard& board_;
  int rank_;
  int ranks_;
  PFN_cuStreamBatchMemOp_v11070 batch_memory_operations_;
  std::array<std::uint32_t, kMostLanes> meetings_{};
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
      ExecuteInOneLane(stream, WithAddresses(call, MovesToPeers(PhasesOf(call), rank())));
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
  void Execute(Stream& stream, const CollectiveCall& call) override {
    const std::vector<MovePhase> phases = PhasesOf(call);
    const PeerProblem problem = ProblemOf(call);
    const Range all{0, MoveCount(problem, Direction::kStore)};
    const int pieces = PiecesOf(problem, static_cast<int>(phases.size()), call.element);
    const auto part = [&](int index, int count) {
      return WithAddresses(
          call, InSteps(phases, PartOf(all, problem.word, index, count), problem.word, pieces));
    };
    if (pieces == 1) return ExecuteInOneLane(stream, part(0, 1));
    Lanes& lanes = LanesFor(stream);
    stream.Record(*forked_);
    lanes[1].out->Wait(*forked_);
    const std::array plans = {part(0, kMostLanes), part(1, kMostLanes)};
    for (std::size_t step = 0; step <= plans[0].phases.size(); ++step) {
      EnqueueStep(stream, lanes[0], 0, plans[0], step);
      EnqueueStep(*lanes[1].out, lanes[1], 1, plans[1], step);
    }
    lanes[1].out->Record(*lanes[1].done);
    stream.Wait(*lanes[1].done);
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

  // A lane meets the other ranks and copies to them by copy engine in one stream: the call's, or
  // `out`. Meanwhile it adds and copies within this GPU, which takes SMs, in `here`.
  struct Lane {
    std::unique_ptr<Stream> out;
    std::unique_ptr<Stream> here;
    std::unique_ptr<Event> met;
    std::unique_ptr<Event> done;
  };
  using Lanes = std::array<Lane, kMostLanes>;

  // The lanes with `stream`'s priority: their sums need SMs as its kernels do.
  Lanes& LanesFor(Stream& stream) {
    Device& device = machine().device;
    const int priority = device.PriorityOf(stream);
    const auto [found, is_new] = lanes_.try_emplace(priority);
    if (is_new) {
      for (Lane& lane : found->second)
        lane = {device.CreateStream({.priority = priority}),
                device.CreateStream({.priority = priority}), device.CreateEvent({.timed = false}),
                device.CreateEvent({.timed = false})};
    }
    return found->second;
  }

  // How many pieces each lane makes of its half of the moves. The first phase of the first piece
  // and the last phase of the last have nothing beside them, so with n pieces of a transfer that
  // takes the time t, (phases - 1) * t / n is lost. Each piece costs a meeting and the start of its
  // copies, about 10 us, in which engines copy 4 MiB. The sum of both is least where they are
  // equal.
  static int PiecesOf(const PeerProblem& problem, int phases, Element element) {
    constexpr double kMeetingBytes = 4 << 20;
    constexpr double kMostPieces = 64;
    const int moves = Adds(problem.operation) ? problem.ranks - 1 : 1;  // of a phase, to peers
    const double bytes = static_cast<double>(MoveCount(problem, Direction::kStore)) * moves *
                         static_cast<double>(SizeOf(element));
    return static_cast<int>(
        std::clamp(std::sqrt((phases - 1) * bytes / kMeetingBytes), 1.0, kMostPieces));
  }

  void ExecuteInOneLane(Stream& stream, const AddressedPlan& plan) {
    Lane& lane = LanesFor(stream)[0];
    for (std::size_t step = 0; step <= plan.phases.size(); ++step)
      EnqueueStep(stream, lane, 0, plan, step);
  }

  // A step, or after the last one only the meeting.
  void EnqueueStep(Stream& stream, Lane& lane, std::size_t number, const AddressedPlan& plan,
                   std::size_t step) {
    signals_.Meet(stream, number);
    if (step == plan.phases.size()) return;
    std::vector<CopyPiece> within;
    std::vector<CopyPiece> to_peers;
    std::vector<CopyPiece> sums_to_peers;
    std::vector<AddressedMove> sums;
    for (AddressedMove move : plan.phases[step]) {
      const bool adds = move.sources > 1;
      if (adds) move.from[0] = sums.emplace_back(SumOf(move)).to[0];
      for (int i = 0; i < move.destinations; ++i) {
        if (move.to[i] == move.from[0]) continue;
        const bool is_within = (move.within >> i & 1U) != 0;
        (is_within ? within
         : adds    ? sums_to_peers
                   : to_peers)
            .push_back({move.to[i], move.from[0], move.words * kPeerWordBytes});
      }
    }
    const bool works_here = !sums.empty() || !within.empty();
    if (works_here) {
      stream.Record(*lane.met);
      lane.here->Wait(*lane.met);
      for (const AddressedMove& sum : sums)
        EnqueueOwnMoves(*lane.here, sms_, {{{sum}}, sum.words, plan.element, false});
      EnqueueEngineCopies(*lane.here, within);
      lane.here->Record(*lane.done);
    }
    EnqueueEngineCopies(stream, to_peers);
    if (works_here) stream.Wait(*lane.done);
    EnqueueEngineCopies(stream, sums_to_peers);
  }

  // Engines cannot add. A kernel adds into the destination on this GPU, and the sum is then copied
  // from there to the others.
  static AddressedMove SumOf(const AddressedMove& move) {
    AddressedMove sum = move;
    sum.to[0] = move.to[std::countr_zero(move.within)];
    sum.destinations = 1;
    sum.within = 1;
    return sum;
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
