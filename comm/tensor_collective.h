// Collectives on tensors: workloads that move rows of tensors between ranks.
//
// Each is a list of calls, one after the other. Its parts are equal slices of the calls' rows: of
// `n` calls in 2n parts, part 0 is the first half of the first call. Results are what the senders'
// tensors should hold (workload/tensor.h), wherever they came from.
#pragma once

#include <memory>
#include <vector>

#include "comm/connection.h"

namespace overlapbench {

struct TensorCall {
  Operation operation = Operation::kShiftRing;
  // In place, both share their memory: a gather's own block is in its place already.
  SharedTensor send;
  SharedTensor receive;
  // Of kShiftRing: these rows of `send` go to rows of `receive` on the rank that is `shift`
  // further. Of kAllReduce: they are summed. Of kAllGather: as many rows are received, and each
  // rank sends its share of them. Of kAllToAll: each rank's share of them goes there; both begin at
  // the same multiple of `rows`. The other operations take whole tensors.
  long send_row = 0;
  long receive_row = 0;
  long rows = 0;  // 0: all
  int shift = 1;
  // Of kAllToAll: each rank keeps its own share in `send`, and nothing moves within it.
  bool own_stays = false;
  // Of kAllReduce, not in place: its result is checked against what the ranks' `send` hold, and not
  // against what they should hold.
  bool of_held = false;
};

// How the whole is enqueued. Parts are calls of their own.
enum class Grouping : std::uint8_t {
  kNone,
  kTogether,  // of all-reduces: Communicator::AllReduceTogether
};

// `seed`: of the inputs, where no other work makes them.
std::unique_ptr<Workload> MakeTensorCollective(const Machine& machine, SharedConnection connection,
                                               std::vector<TensorCall> calls, std::uint32_t seed,
                                               Grouping grouping = Grouping::kNone);

}  // namespace overlapbench
