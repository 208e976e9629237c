// Collectives on tensors: workloads that move rows of tensors between ranks.
//
// Each is a list of calls, executed in order. Its parts are equal slices of the calls' rows: with
// `n` calls in 2n parts, part 0 is the first half of the first call. Expected results come from the
// senders' tensors' oracles (workload/tensor.h).
#pragma once

#include <memory>
#include <vector>

#include "comm/lane_communicator.h"

namespace overlapbench {

struct TensorCall {
  Operation operation = Operation::kShiftRing;
  // In place, both share their memory: a gather's own block is already in place.
  SharedTensor send;
  SharedTensor receive;
  // kShiftRing: these rows of `send` go to the rows of `receive` on rank + `shift`. kAllReduce:
  // these rows are summed. kAllGather: `rows` rows are received, and each rank sends its share of
  // them. kAllToAll: each rank's share of them goes to that rank; both begin at the same multiple
  // of `rows`. The other operations work on whole tensors.
  long send_row = 0;
  long receive_row = 0;
  long rows = 0;  // 0: all
  int shift = 1;
  // kAllToAll: each rank keeps its own share in `send`, and nothing moves within a rank.
  bool own_stays = false;
  // kAllReduce, not in place: its result is checked against the actual values in the ranks' `send`,
  // not the expected ones.
  bool of_held = false;
};

// How the whole is enqueued. Parts are always separate calls.
enum class CallOrder : std::uint8_t {
  kInTurn,
  kTogether,  // all-reduces: Communicator::AllReduceTogether
};

// `seed`: of the inputs that no other work makes.
std::unique_ptr<Workload> MakeTensorCollective(const Machine& machine,
                                               SharedLaneCommunicator communicator,
                                               std::vector<TensorCall> calls, std::uint32_t seed,
                                               CallOrder order = CallOrder::kInTurn);

}  // namespace overlapbench
