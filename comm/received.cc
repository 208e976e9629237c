#include "comm/received.h"

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <thread>

namespace overlapbench {
namespace {

// In the rows of each of these calls, what `shift` ranks before this one has sent, so many rows
// further up.
Tensor::Oracle OfRings(const std::vector<TensorCall>& calls, const SharedTensor& receive,
                       int ranks) {
  struct Sent {
    SharedTensor send;
    int shift = 0;
    long first = 0;  // in `receive`
    long rows = 0;
    long down = 0;
  };
  std::vector<Sent> all;
  for (const TensorCall& call : calls)
    if (call.receive == receive)
      all.push_back({call.send, call.shift, call.receive_row, RowsOf(call),
                     call.receive_row - call.send_row});
  return [all, ranks](int rank, long row, long column) {
    const auto covers = [row](const Sent& one) {
      return row >= one.first && row < one.first + one.rows;
    };
    const auto sent = std::ranges::find_if(all, covers);
    if (sent == all.end()) throw Error("no rank sends these rows");
    return sent->send->Expected((rank - sent->shift + ranks) % ranks, row - sent->down, column);
  };
}

// The ranks' shares, one below the other.
Tensor::Oracle OfGather(const TensorCall& call, int ranks) {
  return [send = call.send, rows = RowsOf(call) / ranks, down = call.receive_row,
          first = call.send_row](int /*rank*/, long row, long column) {
    const auto from = static_cast<int>((row - down) / rows);
    return send->Expected(from, first + (row - down) % rows, column);
  };
}

// From every rank the block that is meant for this one.
Tensor::Oracle OfExchange(const TensorCall& call, int ranks) {
  return [send = call.send, rows = RowsOf(call), block = RowsOf(call) / ranks](int rank, long row,
                                                                               long column) {
    const auto from = static_cast<int>(row % rows / block);
    return send->Expected(from, row / rows * rows + rank * block + row % block, column);
  };
}

// A sum over all ranks is the same on each. In a chain of sums the next sum requests it once per
// rank, so each thread's last one is cached.
class LastSums {
 public:
  double Of(long row, long column, const std::function<double()>& sum) {
    Sum& last = OfThisThread();
    if (last.row == row && last.column == column) return last.value;
    return (last = {row, column, sum()}).value;
  }

 private:
  struct Sum {
    long row = -1;
    long column = -1;
    double value = 0;
  };
  Sum& OfThisThread() {
    const std::scoped_lock lock(mutex_);
    return sums_[std::this_thread::get_id()];
  }

  std::mutex mutex_;
  std::map<std::thread::id, Sum> sums_;
};

// The sums over all ranks: of all rows, or where they are scattered, of this rank's.
Tensor::Oracle OfSums(const TensorCall& call, int ranks) {
  const bool scatters = call.operation == Operation::kReduceScatter;
  return [send = call.send, ranks, segment = scatters ? call.receive->shape().rows : 0,
          last = std::make_shared<LastSums>()](int rank, long row, long column) {
    const long place = rank * segment + row;
    return last->Of(place, column, [&] {
      double sum = 0;
      for (int from = 0; from < ranks; ++from) sum += send->Expected(from, place, column);
      return sum;
    });
  };
}

Tensor::Oracle OracleOf(const TensorCall& call, const std::vector<TensorCall>& calls, int ranks) {
  switch (call.operation) {
    case Operation::kShiftRing:
      return OfRings(calls, call.receive, ranks);
    case Operation::kAllGather:
      return OfGather(call, ranks);
    case Operation::kAllToAll:
      return OfExchange(call, ranks);
    case Operation::kReduceScatter:
    case Operation::kAllReduce:
      return OfSums(call, ranks);
    default:
      throw Error("tensors have no such collective");
  }
}

}  // namespace

long RowsOf(const TensorCall& call) {
  return call.rows > 0 ? call.rows : std::max(call.send->shape().rows, call.receive->shape().rows);
}

void ExpectReceived(const std::vector<TensorCall>& calls, int ranks) {
  for (const TensorCall& call : calls) {
    const bool adds = Adds(call.operation);
    // Gathering a shared matrix in place yields what it was filled with.
    if (IsInPlace(call) && !adds) continue;
    call.receive->Expect(OracleOf(call, calls, ranks), [send = call.send, adds, ranks] {
      return adds ? ErrorOfStoredSums(send->error(), ranks, send->shape().element) : send->error();
    });
  }
}

}  // namespace overlapbench
