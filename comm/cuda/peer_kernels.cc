// Collectives by a kernel with a given number of SMs. The engines differ in who reads and who
// writes, and in the kernel: moves through registers (comm/cuda/peer_move.h), the same by bulk
// copies, or mail for short messages (comm/cuda/peer_mail.h).

#include <fmt/core.h>

#include <set>

#include "comm/cuda/peer_communicator.h"
#include "comm/cuda/peer_mail.h"

namespace overlapbench {
namespace {

class KernelCommunicator : public PeerCommunicator {
 public:
  KernelCommunicator(const Machine& machine, int sms, std::shared_ptr<PeerMemory> memory,
                     bool has_mail = false)
      : PeerCommunicator(machine, std::move(memory), has_mail), sms_(sms) {}

  Proof Prove(const CollectiveCall& call) override {
    const auto stream = machine().device.CreateStream();
    Enqueue(*stream, call);
    stream->Synchronize(machine().timeout, "counting the SMs of a collective");
    const auto multiprocessors = board().Multiprocessors(sms_);
    const auto used = static_cast<long>(
        std::set<std::uint32_t>(multiprocessors.begin(), multiprocessors.end()).size());
    if (used == sms_) return {used, ""};
    return {used, fmt::format("comm_sms:{} ran on {} SMs", sms_, used)};
  }

 protected:
  void Execute(Stream& stream, const CollectiveCall& call) override {
    const AddressedPlan plan = WithAddresses(call, PhasesOf(call));
    Launch(stream, board().NextMeetings(StepsOf(plan, sms_).count()), plan);
  }
  virtual void Launch(Stream& stream, const PeerMeeting& meetings, const AddressedPlan& plan) {
    EnqueuePeerMoves(stream, sms_, meetings, plan);
  }
  [[nodiscard]] int sms() const { return sms_; }

 private:
  int sms_;
};

class LoadKernels : public KernelCommunicator {
 public:
  using KernelCommunicator::KernelCommunicator;

 protected:
  [[nodiscard]] Direction DirectionOf(const CollectiveCall& /*call*/) const override {
    return Direction::kLoad;
  }
};

// Pushing has the fewest waits: a rank's data is complete once the others arrive at the next
// meeting. Sums and broadcasts are carried out in one pass instead: a kernel reads the data in
// place and writes the result wherever it is needed. Pushing sums would use the link better, but
// SMs would move half as much again: on four H100, reduce-scatters by 16 SMs were slower at every
// size tried.
Direction PushedOrOnePass(const CollectiveCall& call) {
  const bool is_one_pass = call.operation == Operation::kBroadcast || Adds(call.operation);
  return is_one_pass ? Direction::kBoth : Direction::kStore;
}

// Short messages are pushed as mail, without meetings.
class StoreKernels : public KernelCommunicator {
 public:
  StoreKernels(const Machine& machine, int sms, std::shared_ptr<PeerMemory> memory)
      : KernelCommunicator(machine, sms, std::move(memory), true) {}

 protected:
  [[nodiscard]] Direction DirectionOf(const CollectiveCall& call) const override {
    const long bytes =
        MoveCount(ProblemOf(call), Direction::kMail) * static_cast<long>(SizeOf(call.element));
    return bytes <= MostMailBytes(call.operation) ? Direction::kMail : PushedOrOnePass(call);
  }
  void Execute(Stream& stream, const CollectiveCall& call) override {
    if (DirectionOf(call) != Direction::kMail) return KernelCommunicator::Execute(stream, call);
    const AddressedPlan plan = WithAddresses(call, PhasesOf(call));  // before NextMail: in its half
    EnqueueMail(stream, sms(), board().NextMail(), plan);
  }
};

class BulkKernels : public KernelCommunicator {
 public:
  using KernelCommunicator::KernelCommunicator;

 protected:
  [[nodiscard]] Direction DirectionOf(const CollectiveCall& call) const override {
    return PushedOrOnePass(call);
  }
  void Launch(Stream& stream, const PeerMeeting& meetings, const AddressedPlan& plan) override {
    EnqueueBulkMoves(stream, sms(), meetings, plan);
  }
};

}  // namespace

std::unique_ptr<Communicator> MakePeerKernels(const Machine& machine, const PeerOptions& options,
                                              std::shared_ptr<PeerMemory> memory) {
  switch (options.engine) {
    case PeerEngine::kSmLoad:
      return std::make_unique<LoadKernels>(machine, options.sms, std::move(memory));
    case PeerEngine::kSmStore:
      return std::make_unique<StoreKernels>(machine, options.sms, std::move(memory));
    case PeerEngine::kSmBulk:
      return std::make_unique<BulkKernels>(machine, options.sms, std::move(memory));
    case PeerEngine::kCopy:
      break;
  }
  throw Error("copy engines are no kernels");
}

}  // namespace overlapbench
