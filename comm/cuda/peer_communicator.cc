// The suite's own collectives, over the memory of the other GPUs on this node.
//
// Each rank has mapped the buffers of all others (comm/cuda/peer_memory.h) and executes its part of
// a plan (comm/peer_plan.h): by a kernel with a given number of SMs (comm/cuda/peer_move.h, or
// comm/cuda/peer_mail.h for short messages), or by copy engines. Engine copies are ordinary copies
// in a stream. Streams of different ranks meet by writing a word to the peer's memory and waiting
// for the peer's (CUDA Driver API, "Stream Memory Operations"), which needs no SM.
//
// A kernel's wait ends after the timeout. A stream's wait does not end by itself: the host, which
// waits for the stream with a timeout, ends the job, and Abort releases the streams.

#include <cudaTypedefs.h>
#include <cuda_runtime.h>
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <map>
#include <set>
#include <vector>

#include "comm/communicator.h"
#include "comm/cuda/copy_proof.h"
#include "comm/cuda/peer_mail.h"
#include "comm/cuda/peer_memory.h"
#include "comm/cuda/peer_move.h"
#include "comm/mail_numbers.h"
#include "comm/peer_plan.h"
#include "device/cuda/cuda_check.h"
#include "device/cuda/cuda_stream.h"
#include "device/cuda/shared_memory.h"
#include "device/wait.h"

namespace overlapbench {
namespace {

// A word that host and device both access.
class HostWord {
 public:
  HostWord() {
    CUDA_CHECK(cudaHostAlloc(&word_, sizeof(*word_), cudaHostAllocMapped));
    *word_ = 0;
    void* on_device = nullptr;
    CUDA_CHECK(cudaHostGetDevicePointer(&on_device, word_, 0));
    on_device_ = static_cast<std::uint32_t*>(on_device);
  }
  ~HostWord() { cudaFreeHost(word_); }
  HostWord(const HostWord&) = delete;
  HostWord& operator=(const HostWord&) = delete;

  [[nodiscard]] std::uint32_t* on_device() const { return on_device_; }
  void Set() { std::atomic_ref(*word_).store(1); }
  [[nodiscard]] bool is_set() const { return std::atomic_ref(*word_).load() != 0; }

 private:
  std::uint32_t* word_ = nullptr;
  std::uint32_t* on_device_ = nullptr;
};

class PeerCommunicator : public Communicator, public Link {
 public:
  PeerCommunicator(const Machine& machine, const PeerOptions& options,
                   std::shared_ptr<PeerMemory> memory)
      : machine_(machine),
        options_(options),
        memory_(std::move(memory)),
        flags_(machine.ranks, kFlagsBytes + kMailHalves * half_mailbox_bytes()),
        batch_memory_operations_(reinterpret_cast<PFN_cuStreamBatchMemOp_v11070>(
            DriverEntryPoint("cuStreamBatchMemOp", 11070))),
        forked_(machine.device.CreateEvent({.timed = false})) {
    CUDA_CHECK(cudaGetDevice(&ordinal_));
    CUDA_CHECK(cudaMemset(flags_.At(machine.ranks.rank()), 0,
                          kFlagsBytes + kMailHalves * half_mailbox_bytes()));
    CUDA_CHECK(cudaDeviceSynchronize());
    // No rank may write to another's flags before that rank has cleared them.
    machine.ranks.Together("sharing memory", [] {});
    machine.ranks.Add(*this);
  }
  ~PeerCommunicator() override { machine_.ranks.Remove(*this); }
  PeerCommunicator(const PeerCommunicator&) = delete;
  PeerCommunicator& operator=(const PeerCommunicator&) = delete;

  [[nodiscard]] int rank() const override { return machine_.ranks.rank(); }
  [[nodiscard]] int size() const override { return machine_.ranks.size(); }

  Buffer Allocate(std::size_t bytes) override { return memory_->Allocate(bytes); }
  [[nodiscard]] std::size_t scratch_bytes(const CollectiveCall& call) const override {
    if (!Adds(call.operation)) return 0;
    return ScratchCount(ProblemOf(call), DirectionOf(call)) * SizeOf(call.element);
  }

  void Enqueue(Stream& stream, const CollectiveCall& call) override {
    ThrowIfRecorded(stream);
    if (call.operation == Operation::kSend) return Send(stream, call);
    if (call.operation == Operation::kReceive) return Receive(stream, call);
    // A kernel that finds its data misaligned would end the CUDA context.
    if (SegmentOf(call) * SizeOf(call.element) % kWordBytes != 0)
      throw Error(fmt::format("a rank's part of {} bytes is not a multiple of {}",
                              SegmentOf(call) * SizeOf(call.element), kWordBytes));
    const AddressedPlan plan = WithAddresses(call, PhasesOf(call));
    if (DirectionOf(call) == Direction::kMail)
      EnqueueByMail(stream, plan);
    else if (options_.engine == PeerEngine::kCopy)
      EnqueueCopies(stream, plan);
    else if (options_.engine == PeerEngine::kSmBulk && Adds(call.operation))
      EnqueueBulkSums(stream, options_.sms, NextMeetings(plan), plan);
    else if (options_.engine == PeerEngine::kSmBulk)
      EnqueueBulkMoves(stream, options_.sms, NextMeetings(plan), plan);
    else
      EnqueuePeerMoves(stream, options_.sms, NextMeetings(plan), plan);
  }

  Proof Prove(const CollectiveCall& call) override {
    return options_.engine == PeerEngine::kCopy ? ProveCopies(call) : ProveKernel(call);
  }

  // ---- Link
  std::string Fault() override {
    if (!failed_.is_set()) return "";
    return fmt::format("another rank did not reach a collective's kernel within {}",
                       InSeconds(machine_.timeout));
  }
  // Ends the waits of kernels and, by setting flags later than any meeting, those of streams. May
  // be called from any thread, whose current device may be another. It must not throw, since other
  // links must be aborted, too.
  void Abort() override {
    constexpr int kLatest = 0x7F;  // in each byte; comparisons are signed
    stop_.Set();
    cudaStream_t stream = nullptr;
    if (cudaSetDevice(ordinal_) != cudaSuccess ||
        cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) != cudaSuccess)
      return;
    cudaMemsetAsync(flags_.At(rank()) + kPeerFlagBytes, kLatest, kPeerFlagBytes, stream);
    cudaStreamDestroy(stream);  // once its work is done
  }

 private:
  // A graph would repeat the calls' numbers, by which ranks identify each other's data.
  static void ThrowIfRecorded(Stream& stream) {
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    CUDA_CHECK(cudaStreamIsCapturing(NativeStream(stream), &status));
    if (status != cudaStreamCaptureStatusNone)
      throw Error("only NCCL's collectives can be recorded into a graph: use transport:nccl");
  }

  static constexpr std::size_t kWordBytes = 16;  // the unit that the kernels move
  // Words of the streams' flags, after those of the phases.
  static constexpr std::size_t kMayWrite = PackedMoves::kMostPhases;
  static constexpr std::size_t kHasWritten = kMayWrite + 1;
  // Flags of kernels, then those of streams, then a word for each block of this rank's kernels. The
  // mailbox follows.
  static constexpr std::size_t kFlagsBytes =
      2 * kPeerFlagBytes + sizeof(std::uint32_t) * kMostPeerBlocks;
  static_assert(kFlagsBytes % kWordBytes == 0);

  // A slot for each rank.
  [[nodiscard]] std::size_t half_mailbox_bytes() const {
    const bool has_mail = options_.engine == PeerEngine::kSmStore;
    return has_mail ? machine_.ranks.size() * kMailFactor * kMostMailBytes : 0;
  }

  // Pushing has the fewest waits: a rank's data is complete once the others arrive at the next
  // meeting. Short messages are pushed as mail, without meetings. For sums, a kernel reads the data
  // in place and writes the result wherever it is needed, in one pass. Pushing alone would use the
  // link better, but make SMs read and write half as much again.
  [[nodiscard]] Direction DirectionOf(const CollectiveCall& call) const {
    if (options_.engine == PeerEngine::kCopy) return Direction::kStore;
    if (options_.engine == PeerEngine::kSmLoad) return Direction::kLoad;
    if (MailHolds(call)) return Direction::kMail;
    const bool is_one_pass =
        call.operation == Operation::kBroadcast || call.operation == Operation::kAllReduce;
    return is_one_pass ? Direction::kBoth : Direction::kStore;
  }
  [[nodiscard]] bool MailHolds(const CollectiveCall& call) const {
    const PeerProblem problem{call.operation, size(), SegmentOf(call)};
    const long bytes =
        MoveCount(problem, Direction::kMail) * static_cast<long>(SizeOf(call.element));
    return options_.engine == PeerEngine::kSmStore && bytes <= kMostMailBytes;
  }
  // The ring moves its whole buffer as one segment.
  [[nodiscard]] static long SegmentOf(const CollectiveCall& call) {
    return call.operation == Operation::kShiftRing ? call.count : call.segment;
  }
  [[nodiscard]] PeerProblem ProblemOf(const CollectiveCall& call) const {
    const bool in_place = call.operation != Operation::kShiftRing &&
                          memory_->Locate(call.send).array == memory_->Locate(call.receive).array;
    return {call.operation, size(), SegmentOf(call), in_place, 0, call.shift, call.own_stays};
  }

  [[nodiscard]] std::vector<MovePhase> PhasesOf(const CollectiveCall& call) const {
    return PeerPlan(ProblemOf(call), DirectionOf(call), rank());
  }
  [[nodiscard]] AddressedPlan WithAddresses(const CollectiveCall& call,
                                            const std::vector<MovePhase>& phases) const {
    const PeerProblem problem = ProblemOf(call);
    // In place, the larger of the two buffers begins first.
    const void* const larger = std::min(call.send, static_cast<const void*>(call.receive));
    const std::array buffers = {memory_->Locate(problem.in_place ? larger : call.send),
                                memory_->Locate(problem.in_place ? larger : call.receive),
                                memory_->Locate(call.scratch)};
    const auto address = [&](const Place& place) {
      const std::size_t offset = place.first * SizeOf(call.element);
      if (place.buffer == PeerBuffer::kMail) return MailOf(place.rank) + kMailFactor * offset;
      return buffers[static_cast<std::size_t>(place.buffer)].At(place.rank) + offset;
    };
    AddressedPlan plan{{}, MoveCount(problem, DirectionOf(call)), call.element, false};
    for (const MovePhase& phase : phases) {
      plan.phases.emplace_back();
      plan.ends_at_peers = false;
      for (const Move& move : phase) {
        AddressedMove& addressed = plan.phases.back().emplace_back();
        for (const Place& place : move.from) {
          if (place.buffer == PeerBuffer::kMail) addressed.mail |= 1U << addressed.sources;
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

  [[nodiscard]] PeerMeeting Meeting() const {
    PeerMeeting meeting{};
    for (int peer = 0; peer < size(); ++peer)
      meeting.flags[peer] = reinterpret_cast<std::uint32_t*>(flags_.At(peer));
    meeting.multiprocessors =
        reinterpret_cast<std::uint32_t*>(flags_.At(rank()) + 2 * kPeerFlagBytes);
    meeting.stop = stop_.on_device();
    meeting.failed = failed_.on_device();
    meeting.timeout_ns = std::chrono::nanoseconds(machine_.timeout).count();
    meeting.rank = rank();
    meeting.ranks = size();
    return meeting;
  }
  // The meetings of a kernel that all ranks launch: before each phase, and at the end. The host
  // counts them, like those of streams, because reading a count from the GPU's memory would delay
  // every kernel.
  [[nodiscard]] PeerMeeting NextMeetings(const AddressedPlan& plan) {
    PeerMeeting meeting = Meeting();
    meeting.number = kernel_meetings_ + 1;
    kernel_meetings_ += static_cast<std::uint32_t>(plan.phases.size()) + 1;
    return meeting;
  }

  // ---- By mail

  // The half of a rank's mailbox that the next call uses.
  [[nodiscard]] std::byte* MailOf(int rank) const {
    return flags_.At(rank) + kFlagsBytes + mail_.half() * half_mailbox_bytes();
  }
  void EnqueueByMail(Stream& stream, const AddressedPlan& plan) {
    const MailNumbers::Call call = mail_.Next(kernel_meetings_);
    PeerMeeting meeting = Meeting();
    meeting.number = call.number;
    EnqueueMail(stream, options_.sms, meeting, plan, call.free_at);
  }

  // ---- By copy engine

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
    int priority = 0;  // 0 is the lowest; higher ones are negative
    CUDA_CHECK(cudaStreamGetPriority(NativeStream(stream), &priority));
    Lanes& lanes = lanes_[priority];
    Device& device = machine_.device;
    while (lanes.size() < PackedMoves::kMostPhases)
      lanes.push_back({device.CreateStream({.priority = -priority}),
                       device.CreateStream({.priority = -priority}),
                       device.CreateEvent({.timed = false}), device.CreateEvent({.timed = false})});
    return lanes;
  }

  // This rank's word in a peer's flags for the streams of a phase.
  [[nodiscard]] CUdeviceptr StreamFlag(int of_rank, int from_rank, std::size_t phase) const {
    return reinterpret_cast<CUdeviceptr>(flags_.At(of_rank) + kPeerFlagBytes) +
           (phase * kMostPeers + from_rank) * sizeof(std::uint32_t);
  }
  // Signal writes the number to `peer`, and AwaitSignal waits until `peer` has written it to this
  // rank.
  [[nodiscard]] CUstreamBatchMemOpParams Signal(int peer, std::size_t phase,
                                                std::uint32_t number) const {
    CUstreamBatchMemOpParams operation{};
    operation.writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
    operation.writeValue.address = StreamFlag(peer, rank(), phase);
    operation.writeValue.value = number;
    operation.writeValue.flags = CU_STREAM_WRITE_VALUE_DEFAULT;
    return operation;
  }
  [[nodiscard]] CUstreamBatchMemOpParams AwaitSignal(int peer, std::size_t phase,
                                                     std::uint32_t number) const {
    CUstreamBatchMemOpParams operation{};
    operation.waitValue.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32;
    operation.waitValue.address = StreamFlag(rank(), peer, phase);
    operation.waitValue.value = number;
    operation.waitValue.flags = CU_STREAM_WAIT_VALUE_GEQ;
    return operation;
  }
  // Enqueues them in this order, as one entry of the stream's queue. A queue takes 1,021 entries
  // (H100, driver 580): with one for each signal and each copy, 24 all-gathers of eight ranks
  // filled the queues behind a closed start gate.
  void Operate(Stream& stream, std::vector<CUstreamBatchMemOpParams> operations) const {
    if (operations.empty()) return;
    ThrowIfDriverFailed(
        batch_memory_operations_(static_cast<CUstream>(NativeStream(stream)),
                                 static_cast<unsigned>(operations.size()), operations.data(), 0),
        "cuStreamBatchMemOp");
  }
  void MeetInStream(Stream& stream, std::size_t phase) {
    const std::uint32_t meeting = ++meetings_.at(phase);
    std::vector<CUstreamBatchMemOpParams> operations;
    for (int peer = 0; peer < size(); ++peer)
      if (peer != rank()) operations.push_back(Signal(peer, phase, meeting));
    for (int peer = 0; peer < size(); ++peer)
      if (peer != rank()) operations.push_back(AwaitSignal(peer, phase, meeting));
    Operate(stream, std::move(operations));
  }

  // ---- Sends and receives, by copy engine
  //
  // The receiver signals when its memory may be written to, and the sender when it has written.
  // Neither needs an SM, so a receive may be posted as soon as its memory is free.

  void Send(Stream& stream, const CollectiveCall& call) {
    const std::uint32_t number = ++sent_.at(call.peer);
    const CopyPiece piece = {memory_->Locate(call.receive).At(call.peer), call.send,
                             call.count * SizeOf(call.element)};
    Operate(stream, {AwaitSignal(call.peer, kMayWrite, number)});
    EnqueueEngineCopies(stream, {&piece, 1});
    Operate(stream, {Signal(call.peer, kHasWritten, number)});
  }
  void Receive(Stream& stream, const CollectiveCall& call) {
    const std::uint32_t number = ++received_.at(call.peer);
    Operate(stream,
            {Signal(call.peer, kMayWrite, number), AwaitSignal(call.peer, kHasWritten, number)});
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
    const std::size_t words = plan.bytes() / kWordBytes;
    Lanes& lanes = LanesFor(stream);
    stream.Record(*forked_);
    lanes[0].here->Wait(*forked_);
    for (std::size_t i = 0; i < pieces; ++i) {
      const std::size_t begin = words * i / pieces * kWordBytes;
      const std::size_t end = words * (i + 1) / pieces * kWordBytes;
      for (std::size_t phase = 0; phase < plan.phases.size(); ++phase) {
        if (phase > 0) Follow(lanes[phase], lanes[phase - 1]);
        EnqueuePiece(lanes[phase], phase, plan, begin, end - begin);
      }
    }
    Lane& last = lanes[plan.phases.size() - 1];
    last.here->Wait(*last.out_done);
    MeetInStream(*last.here, plan.phases.size() - 1);
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
    if (phase > 0 || first_byte == 0) MeetInStream(*lane.here, phase);
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
    EnqueueOwnMoves(*lane.here, options_.sms,
                    {{{sum}}, static_cast<long>(bytes / SizeOf(element)), element, false});
    lane.here->Record(*lane.here_done);
    lane.out->Wait(*lane.here_done);
    move.from[0] = sum.to[0];
  }

  // ---- Proof

  Proof ProveKernel(const CollectiveCall& call) {
    const auto stream = machine_.device.CreateStream();
    Enqueue(*stream, call);
    stream->Synchronize(machine_.timeout, "counting the SMs of a collective");
    std::vector<std::uint32_t> multiprocessors(options_.sms);
    CUDA_CHECK(cudaMemcpy(multiprocessors.data(), Meeting().multiprocessors,
                          multiprocessors.size() * sizeof(std::uint32_t), cudaMemcpyDefault));
    const auto used = static_cast<long>(
        std::set<std::uint32_t>(multiprocessors.begin(), multiprocessors.end()).size());
    if (used == options_.sms) return {used, ""};
    return {used, fmt::format("comm_sms:{} ran on {} SMs", options_.sms, used)};
  }

  // Runs only the copies to peers, in one piece, because sums and copies within the GPU use SMs. If
  // ranks share a GPU, nothing can be proven.
  Proof ProveCopies(const CollectiveCall& call) {
    Proof proven{scratch_bytes(call) > 0 ? options_.sms : 0, ""};
    if (machine_.shares_gpus) return proven.sms > 0 ? proven : Proof{};
    const auto enqueue = [&](Stream& stream) {
      if (call.count == 0) return;
      if (call.operation == Operation::kSend || call.operation == Operation::kReceive)
        return Enqueue(stream, call);
      EnqueueCopies(stream, WithAddresses(call, MovesToPeers(PhasesOf(call), rank())));
    };
    if (TakesNoSms(machine_.device, machine_.ranks, enqueue)) return proven;
    return {{},
            "the copies did not finish while all SMs were held, so copy engines may not have made "
            "them"};
  }

  Machine machine_;
  PeerOptions options_;
  std::shared_ptr<PeerMemory> memory_;
  int ordinal_ = 0;
  HostWord stop_;
  HostWord failed_;
  PeerArray flags_;
  PFN_cuStreamBatchMemOp_v11070 batch_memory_operations_;
  std::map<int, Lanes> lanes_;                                      // by priority
  std::array<std::uint32_t, PackedMoves::kMostPhases> meetings_{};  // by phase, of the streams
  std::uint32_t kernel_meetings_ = 0;
  MailNumbers mail_;
  std::unique_ptr<Event> forked_;
  std::array<std::uint32_t, kMostPeers> sent_{};  // sends so far, by peer; below, receives
  std::array<std::uint32_t, kMostPeers> received_{};
};

}  // namespace

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
  return std::make_unique<PeerCommunicator>(machine, options, std::move(memory));
}

}  // namespace overlapbench
