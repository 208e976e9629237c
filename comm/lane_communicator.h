// LaneCommunicator: one communicator for all the collectives of a lane, and the tensors they work
// on.
//
// Collectives on one stream follow each other and may share a communicator. Those on different
// streams may not, because their calls would interleave (comm/transport.h).
#pragma once

#include <memory>
#include <utility>

#include "comm/transport.h"
#include "workload/tensor.h"

namespace overlapbench {

class LaneCommunicator {
 public:
  // `settings`: those of the transport (TransportAxes).
  LaneCommunicator(std::shared_ptr<Transports> transports, Settings settings)
      : transports_(std::move(transports)), settings_(std::move(settings)) {}

  // Connects on the first call, which all ranks make together.
  Communicator& Get() {
    if (communicator_ == nullptr) communicator_ = transports_->Connect(settings_);
    return *communicator_;
  }

 private:
  std::shared_ptr<Transports> transports_;
  Settings settings_;
  std::shared_ptr<Communicator> communicator_;
};
using SharedLaneCommunicator = std::shared_ptr<LaneCommunicator>;

// A tensor that the communicator's collectives can work on.
inline SharedTensor MakeTensor(SharedLaneCommunicator communicator, const TensorShape& shape) {
  return std::make_shared<Tensor>(shape,
                                  [communicator = std::move(communicator)](std::size_t bytes) {
                                    return communicator->Get().Allocate(bytes);
                                  });
}

}  // namespace overlapbench
