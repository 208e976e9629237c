// Connection: one communicator for all the collectives of a lane, and the tensors they work on.
//
// Collectives on one stream follow each other and may share a communicator. Those on different
// streams may not, because their calls would interleave (comm/transport.h).
#pragma once

#include <memory>
#include <utility>

#include "comm/transport.h"
#include "workload/tensor.h"

namespace overlapbench {

class Connection {
 public:
  // `settings`: those of the transport (TransportAxes).
  Connection(std::shared_ptr<Transports> transports, Settings settings)
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
using SharedConnection = std::shared_ptr<Connection>;

// A tensor that the connection's collectives can work on.
inline SharedTensor MakeTensor(SharedConnection connection, const TensorShape& shape) {
  return std::make_shared<Tensor>(shape, [connection = std::move(connection)](std::size_t bytes) {
    return connection->Get().Allocate(bytes);
  });
}

}  // namespace overlapbench
