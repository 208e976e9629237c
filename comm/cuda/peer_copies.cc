// Collectives, sends and receives by copy engines, which take no SM unless they add.
//
// Engine copies are ordinary copies in a stream. Streams of different ranks meet by writing a word
// to the peer's board and waiting for the peer's (comm/cuda/peer_board.h).
//
// A plan of several phases is carried out in pieces (comm/peer_plan.h): while the engines copy one
// piece, a kernel adds all arrivals of the one before. All ranks meet before each step, though not
// every step needs it. An engine copies to one peer after the other, and ranks that drifted apart
// would send to one peer at the same time and to another not at all. In a broadcast's chain, whose
// ranks each send to one other, a rank waits for its piece only: meetings took 12 us each.
//
// A graph repeats what was recorded, numbers too. In a recorded collective, ranks therefore clear
// the words that they have waited for (StreamSignals::MeetInGraph).

#include <cudaTypedefs.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <array>
#include <bit>
#include <map>
#include <utility>
#include <vector>

#include "comm/cuda/peer_communicator.h"
#include "device/cuda/cuda_check.h"
#include "device/cuda/cuda_stream.h"
#include "device/cuda/sm_hold.h"

namespace overlapbench {
namespace {

// Signals between the streams of different ranks. Each has a channel: one for collectives, one for
// chains, two for sends, and three for collectives in graphs.
class StreamSignals {
 public:
  static constexpr std::size_t kMeets = 0;
  static constexpr std::size_t kHasForwarded = 1;
  static constexpr std::size_t kMayWrite = 2;
  static constexpr std::size_t kHasWritten = 3;
  static constexpr std::size_t kInGraph = 4;

  StreamSignals(const PeerBoard& board, int rank, int ranks)
      : board_(board),
        rank_(rank),
        ranks_(ranks),
        batch_memory_operations_(reinterpret_cast<PFN_cuStreamBatchMemOp_v11070>(
            DriverEntryPoint("cuStreamBatchMemOp", 11070))) {}

  using Operation = CUstreamBatchMemOpParams;
  // Writes the number to `peer`.
  [[nodiscard]] Operation Give(int peer, std::size_t channel, std::uint32_t number) const {
    return Write(board_.StreamWord(peer, rank_, channel), number);
  }
  static Operation Write(CUdeviceptr word, std::uint32_t number) {
    Operation operation{};
    operation.writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
    operation.writeValue.address = word;
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
  // The streams of all ranks meet.
  void Meet(Stream& stream) {
    ++meetings_;
    std::vector<Operation> operations;
    for (int peer = 0; peer < ranks_; ++peer)
      if (peer != rank_) operations.push_back(Give(peer, kMeets, meetings_));
    for (int peer = 0; peer < ranks_; ++peer)
      if (peer != rank_) operations.push_back(Await(peer, kMeets, meetings_));
    Enqueue(stream, std::move(operations));
  }
  // The same in a graph: before step `step` of a call, or at its end. A peer may give a word again
  // once this rank has cleared it, which the next meeting shows if it is by another word. So steps
  // take turns with two words, and the end of each call has a third.
  static constexpr int kEnd = -1;
  void MeetInGraph(Stream& stream, int step) const {
    const std::size_t channel = kInGraph + (step == kEnd ? 2 : step % 2);
    std::vector<Operation> gives;
    std::vector<Operation> awaits;
    std::vector<Operation> clears;
    for (int peer = 0; peer < ranks_; ++peer) {
      if (peer == rank_) continue;
      gives.push_back(Give(peer, channel, 1));
      awaits.push_back(Await(peer, channel, 1));
      clears.push_back(Write(board_.StreamWord(rank_, peer, channel), 0));
    }
    for (const auto* later : {&awaits, &clears})
      gives.insert(gives.end(), later->begin(), later->end());
    Enqueue(stream, std::move(gives));
  }

 private:
  const PeerBoard& board_;
  int rank_;
  int ranks_;
  PFN_cuStreamBatchMemOp_v11070 batch_memory_operations_;
  std::uint32_t meetings_ = 0;
};

// Whether what `enqueue` enqueues finishes on all ranks while the SMs of all GPUs are held. Called
// by all ranks together; all get the same result. The proof is one-sided: work that finishes used
// no SM, but work that does not may merely have been enqueued late on one rank. So there are
// several attempts.
bool TakesNoSms(Device& device, Ranks& ranks, const std::function<void(Stream&)>& enqueue) {
  constexpr int kAttempts = 3;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    bool finishes = false;
    // In a step, an error on one rank ends the attempt on all before they compare their results.
    ranks.Together("proving that copies take no SM", [&] {
      const auto hold = [&](const auto& step) { ranks.Together("holding all SMs", step); };
      finishes = FinishesWithoutSms(device, {enqueue, hold, ranks.timeout()});
    });
    if (!ranks.Any(!finishes, "agreeing on whether copies took SMs")) return true;
  }
  return false;
}

class CopyEngines : public PeerCommunicator {
 public:
  CopyEngines(const Machine& machine, int sms, std::shared_ptr<PeerMemory> memory)
      : PeerCommunicator(machine, std::move(memory), false),
        sms_(sms),
        signals_(board(), rank(), size()) {}

  void Enqueue(Stream& stream, const CollectiveCall& call) override {
    if (!IsPointToPoint(call.operation)) return PeerCommunicator::Enqueue(stream, call);
    if (IsRecorded(stream))
      throw Error(
          "transfers between two ranks by copy engine cannot be recorded into a graph: use "
          "transport:nccl");
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
      ExecuteSteps(stream, WithAddresses(call, MovesToPeers(PhasesOf(call), rank())));
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
    const auto pieces = PiecesByCopy(ProblemOf(call), static_cast<int>(phases.size()));
    const AddressedPlan steps = WithAddresses(call, InSteps(phases, pieces));
    const bool is_chain = !Adds(call.operation) && phases.size() > 1;
    if (!is_chain || IsRecorded(stream)) return ExecuteSteps(stream, steps);
    ExecuteChain(stream, steps, static_cast<std::uint32_t>(pieces.size()), ProblemOf(call).root);
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

  // The call's stream meets the other ranks and copies to them by copy engine. Meanwhile `here`
  // adds and copies within this GPU, which takes SMs. With two ranks, no copies compete for a link,
  // so `onward` copies sums to the peer while the next piece is on its way.
  struct Side {
    std::unique_ptr<Stream> stream;
    std::unique_ptr<Event> done;
    bool is_used = false;  // by this call
  };
  struct Sides {
    Side here;
    Side onward;
    std::unique_ptr<Event> met;
  };

  // Those with `stream`'s priority: sums need SMs as its kernels do.
  Sides& SidesOf(Stream& stream) {
    Device& device = machine().device;
    const int priority = device.PriorityOf(stream);
    const auto [found, is_new] = sides_.try_emplace(priority);
    if (is_new) {
      for (Side* side : {&found->second.here, &found->second.onward})
        *side = {device.CreateStream({.priority = priority}), device.CreateEvent({.timed = false})};
      found->second.met = device.CreateEvent({.timed = false});
    }
    return found->second;
  }

  void ExecuteSteps(Stream& stream, const AddressedPlan& plan) {
    Sides& sides = SidesOf(stream);
    const auto meet = [&, recorded = IsRecorded(stream)](int step) {
      if (recorded)
        signals_.MeetInGraph(stream, step);
      else
        signals_.Meet(stream);
    };
    for (int step = 0; step < std::ssize(plan.phases); ++step) {
      meet(step);
      EnqueueStep(stream, sides, plan.phases[step], plan.element);
    }
    Join(stream, sides);
    meet(StreamSignals::kEnd);
  }

  // Each piece waits for the rank before to have sent it, and for nothing else. The last rank sends
  // nothing: the final meeting shows that it has received everything. All ranks count all pieces.
  void ExecuteChain(Stream& stream, const AddressedPlan& plan, std::uint32_t pieces, int root) {
    const int before = (rank() + size() - 1) % size();
    const int after = (rank() + 1) % size();
    Sides& sides = SidesOf(stream);
    signals_.Meet(stream);
    std::vector<StreamSignals::Operation> signals;
    std::uint32_t number = forwarded_;
    for (const auto& step : plan.phases) {
      if (step.empty()) continue;
      ++number;
      if (rank() != root)
        signals.push_back(signals_.Await(before, StreamSignals::kHasForwarded, number));
      signals_.Enqueue(stream, std::exchange(signals, {}));
      EnqueueStep(stream, sides, step, plan.element);
      signals = {signals_.Give(after, StreamSignals::kHasForwarded, number)};
    }
    signals_.Enqueue(stream, std::move(signals));
    forwarded_ += pieces;
    Join(stream, sides);
    signals_.Meet(stream);
  }

  // `stream` waits for what the sides do.
  static void Join(Stream& stream, Sides& sides) {
    for (Side* side : {&sides.here, &sides.onward}) {
      if (!std::exchange(side->is_used, false)) continue;
      side->stream->Record(*side->done);
      stream.Wait(*side->done);
    }
  }

  void EnqueueStep(Stream& stream, Sides& sides, const std::vector<AddressedMove>& moves,
                   Element element) {
    std::vector<CopyPiece> within;
    std::vector<CopyPiece> to_peers;
    std::vector<CopyPiece> sums_to_peers;
    std::vector<AddressedMove> sums;
    for (AddressedMove move : moves) {
      const bool adds = move.sources > 1;
      if (adds) move.from[0] = sums.emplace_back(SumOf(move)).to[0];
      for (int i = 0; i < move.destinations; ++i) {
        if (move.to[i] == move.from[0]) continue;
        auto& to_others = adds ? sums_to_peers : to_peers;
        ((move.within >> i & 1U) != 0 ? within : to_others)
            .push_back({move.to[i], move.from[0], move.words * kPeerWordBytes});
      }
    }
    Side& here = sides.here;
    if (!sums.empty() || !within.empty()) {
      stream.Record(*sides.met);
      here.stream->Wait(*sides.met);
      for (const AddressedMove& sum : sums)
        EnqueueOwnMoves(*here.stream, sms_, {{{sum}}, sum.words, element, false});
      EnqueueEngineCopies(*here.stream, within);
      here.is_used = true;
    }
    EnqueueEngineCopies(stream, to_peers);
    if (sums_to_peers.empty()) return;
    sides.onward.is_used = size() == 2;
    Stream& onward = sides.onward.is_used ? *sides.onward.stream : stream;
    here.stream->Record(*here.done);
    onward.Wait(*here.done);
    EnqueueEngineCopies(onward, sums_to_peers);
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
  std::map<int, Sides> sides_;                    // by priority
  std::uint32_t forwarded_ = 0;                   // pieces of chains so far, on any rank
  std::array<std::uint32_t, kMostPeers> sent_{};  // so far, by peer
  std::array<std::uint32_t, kMostPeers> received_{};
};

}  // namespace

std::unique_ptr<Communicator> MakeCopyEngines(const Machine& machine, const PeerOptions& options,
                                              std::shared_ptr<PeerMemory> memory) {
  return std::make_unique<CopyEngines>(machine, options.sms, std::move(memory));
}

}  // namespace overlapbench
