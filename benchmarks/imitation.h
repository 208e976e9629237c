// Imitation: a row's communication, and stand-ins that take its resources in its place
// (comm/stand_in.h).
//
// When the runs are made, nothing of it is known yet. The first stand-in that connects times the
// communication alone, and asks it for its SMs and bytes. A copy by engine takes no SMs; its
// stand-ins take 16.
#pragma once

#include <memory>
#include <string>

#include "fixtures/schedule.h"

namespace overlapbench {

class Imitation {
 public:
  // Within a larger memory the bytes go past the cache.
  static constexpr std::size_t kMostSpan = 1UL << 30U;

  Imitation(const Machine& machine, const Work& comm);

  // The communication's work, to be made before the stand-ins.
  [[nodiscard]] const Work& comm() const { return comm_; }
  // `span_bytes`: the size of the memory within which it moves the bytes; 0: it moves none.
  [[nodiscard]] Work StandIn(const std::string& name, std::size_t span_bytes) const;

 private:
  struct Model;
  Machine machine_;
  std::shared_ptr<Model> model_;
  Work comm_;
};

}  // namespace overlapbench
