// Transports whose communicators move nothing: they note what they are asked for.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "comm/transport.h"
#include "test_ranks.h"

namespace overlapbench {

class NotingCommunicator : public Communicator {
 public:
  // Calls need `scratch_factor` bytes of scratch memory for each of their elements.
  NotingCommunicator(Device& device, std::size_t scratch_factor)
      : device_(device), scratch_factor_(scratch_factor) {}

  [[nodiscard]] int rank() const override { return TestRanks().rank(); }
  [[nodiscard]] int size() const override { return TestRanks().size(); }
  Buffer Allocate(std::size_t bytes) override {
    allocated.push_back(bytes);
    return device_.Allocate(bytes, MemoryKind::kDevice);
  }
  [[nodiscard]] std::size_t scratch_bytes(const CollectiveCall& call) const override {
    return scratch_factor_ * call.count;
  }
  void Enqueue(Stream& /*stream*/, const CollectiveCall& call) override { calls.push_back(call); }
  Proof Prove(const CollectiveCall& call) override {
    proven.push_back(call);
    return {.sms = 7, .fault = "it took another kernel"};
  }

  std::vector<std::size_t> allocated;
  std::vector<CollectiveCall> calls;
  std::vector<CollectiveCall> proven;

 private:
  Device& device_;
  std::size_t scratch_factor_;
};

// All works share one communicator.
class NotingTransports : public Transports {
 public:
  explicit NotingTransports(const Machine& machine, std::size_t scratch_factor = 0)
      : Transports(machine),
        communicator(std::make_shared<NotingCommunicator>(machine.device, scratch_factor)) {}
  std::shared_ptr<Communicator> Connect(const Settings& /*settings*/, int channel) override {
    channels.push_back(channel);
    return communicator;
  }

  std::shared_ptr<NotingCommunicator> communicator;
  std::vector<int> channels;
};

}  // namespace overlapbench
