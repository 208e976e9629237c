// Repeater: enqueues the same work again and again, by a loop of launches or by one launch of a
// graph in which that loop was recorded.
#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "device/device.h"

namespace overlapbench {

class Repeater {
 public:
  Repeater(Device& device, bool as_graph, std::function<void(Stream&)> loop)
      : loop_(std::move(loop)), graph_(as_graph ? device.Record(loop_) : nullptr) {}
  void Enqueue(Stream& stream) {
    if (graph_ != nullptr)
      graph_->Launch(stream);
    else
      loop_(stream);
  }

 private:
  std::function<void(Stream&)> loop_;
  std::unique_ptr<Graph> graph_;
};

}  // namespace overlapbench
