#include "comm/tensor_collective.h"

#include <fmt/core.h>

#include <algorithm>
#include <memory>
#include <tuple>
#include <utility>

#include "comm/received.h"
#include "ranks/ranks.h"
#include "workload/data.h"
#include "workload/sample_check.h"

namespace overlapbench {
namespace {

class TensorCollectiveWorkload : public Workload {
 public:
  TensorCollectiveWorkload(const Machine& machine, SharedLaneCommunicator communicator,
                           std::vector<TensorCall> calls, std::uint32_t seed, CallOrder order)
      : machine_(machine),
        communicator_(std::move(communicator)),
        calls_(std::move(calls)),
        seed_(seed),
        order_(order) {}

  void Connect() override {
    Communicator& communicator = communicator_->Get();
    std::size_t scratch_bytes = 0;
    for (const TensorCall& call : calls_) {
      call.send->Connect();
      call.receive->Connect();
      scratch_bytes = std::max(scratch_bytes, communicator.scratch_bytes(Whole(call)));
    }
    if (scratch_bytes > 0) scratch_ = communicator.Allocate(scratch_bytes);
  }

  [[nodiscard]] Cost cost() const override {
    const int ranks = machine_.ranks.size();
    const double share = static_cast<double>(ranks - 1) / ranks;
    Cost cost;
    for (const TensorCall& call : calls_) {
      const TensorShape& send = call.send->shape();
      cost.wire_bytes += static_cast<double>(RowsOf(call) * send.columns) *
                         static_cast<double>(SizeOf(send.element));
      cost.bus_factor = call.operation == Operation::kShiftRing ? 1 : share;
      if (call.operation == Operation::kAllReduce) cost.bus_factor = 2 * share;
    }
    return cost;
  }

  void Reset(Stream& stream) override {
    for (const TensorCall& call : calls_) call.send->Fill(stream, machine_.ranks.rank(), seed_);
    PoisonResult(stream);
  }
  // The receive buffer may be an input of a work that this one also waits for. That work's Reset
  // then fills it.
  void PoisonResult(Stream& stream) override {
    for (const TensorCall& call : calls_) PoisonReceived(stream, call);
    ExpectReceived(calls_, machine_.ranks.size());
  }

  void Enqueue(Stream& stream) override {
    if (order_ == CallOrder::kTogether) return EnqueueTogether(stream);
    for (const TensorCall& call : calls_) communicator_->Get().Enqueue(stream, Whole(call));
  }
  void EnqueuePart(Stream& stream, const Part& part) override {
    const auto calls = static_cast<long>(calls_.size());
    if (part.count % calls != 0)
      throw Error(fmt::format("{} calls cannot be cut into {} parts", calls, part.count));
    const long slices = part.count / calls;
    communicator_->Get().Enqueue(stream,
                                 Rows(calls_[part.index / slices], part.index % slices, slices));
  }

  Verdict Verify(Stream& stream) override {
    std::vector<TensorRows> written;
    for (const TensorCall& call : calls_) AddWritten(written, call);
    if (calls_.front().of_held) return VerifyHeld(stream);
    const Result result = CheckLeft(machine_, stream, written);
    fingerprint_ = result.fingerprint;
    return result.verdict;
  }
  [[nodiscard]] std::optional<std::uint64_t> Fingerprint() const override { return fingerprint_; }

  std::string IneffectiveKnob() override {
    const auto proof = communicator_->Get().Prove(Whole(calls_.front()));
    sms_ = proof.sms;
    return proof.fault;
  }
  [[nodiscard]] std::optional<long> sms() const override { return sms_; }

 private:
  // All ranks read the same sample of what they send, whatever else is wrong on one of them. That
  // is a step of all ranks: one that cannot read its own would leave the others in the gathering.
  Verdict VerifyHeld(Stream& stream) {
    const auto& [send, receive] = std::tie(calls_.front().send, calls_.front().receive);
    std::vector<double> own;
    machine_.ranks.Together("reading what is summed",
                            [&] { own = SampledValues(stream, send->View(), machine_.timeout); });
    const std::vector<double> all = machine_.ranks.GatherNumbers(own, "verifying sums");
    std::vector<double> sums(own.size());
    for (std::size_t i = 0; i < all.size(); ++i) sums[i % own.size()] += all[i];
    fingerprint_ = receive->Fingerprint(machine_, stream);
    return CheckSample(machine_.device, stream, receive->View(), sums,
                       ErrorOfStoredSums({}, machine_.ranks.size(), send->shape().element),
                       machine_.timeout);
  }

  // Adds the rows that a call writes.
  void AddWritten(std::vector<TensorRows>& written, const TensorCall& call) const {
    const long rows = call.rows > 0 ? call.rows : call.receive->shape().rows;
    if (!call.own_stays) return written.push_back({call.receive, call.receive_row, rows});
    const long block = rows / machine_.ranks.size();
    for (int peer = 0; peer < machine_.ranks.size(); ++peer) {
      if (peer != machine_.ranks.rank())
        written.push_back({call.receive, call.receive_row + peer * block, block});
    }
  }

  void EnqueueTogether(Stream& stream) {
    std::vector<CollectiveCall> calls;
    for (const TensorCall& call : calls_) calls.push_back(Whole(call));
    communicator_->Get().AllReduceTogether(stream, calls);
  }

  [[nodiscard]] CollectiveCall Whole(const TensorCall& call) const { return Rows(call, 0, 1); }
  // Slice `index` of `count` of a call.
  [[nodiscard]] CollectiveCall Rows(const TensorCall& call, long index, long count) const {
    const bool sends_segment = call.operation == Operation::kAllGather;
    const TensorShape& shape = call.send->shape();
    const int ranks = machine_.ranks.size();
    long rows = RowsOf(call);
    if (rows % count != 0) throw Error(fmt::format("{} rows cannot be cut into {}", rows, count));
    rows /= count;
    long send_row = call.send_row + index * rows;
    if (sends_segment && IsInPlace(call)) send_row = machine_.ranks.rank() * rows / ranks;
    CollectiveCall made{.operation = call.operation,
                        .send = call.send->Row(send_row),
                        .receive = call.receive->Row(call.receive_row + index * rows),
                        .scratch = scratch_.data(),
                        .count = rows * shape.columns,
                        .element = shape.element,
                        .shift = call.shift,
                        .own_stays = call.own_stays};
    made.segment = made.count / ranks;
    return made;
  }

  void PoisonReceived(Stream& stream, const TensorCall& call) const {
    const TensorShape& shape = call.receive->shape();
    if (call.operation == Operation::kShiftRing ||
        (call.operation == Operation::kAllReduce && !IsInPlace(call)))
      return call.receive->PoisonRows(stream, call.receive_row, RowsOf(call));
    if (!IsInPlace(call)) return call.receive->PoisonRows(stream, 0, shape.rows);
    if (call.operation != Operation::kAllGather) return;
    for (int block = 0; block < shape.blocks; ++block) {
      if (block != machine_.ranks.rank())
        call.receive->PoisonRows(stream, block * shape.block_rows(), shape.block_rows());
    }
  }

  Machine machine_;
  SharedLaneCommunicator communicator_;
  std::vector<TensorCall> calls_;
  std::uint32_t seed_;
  CallOrder order_;
  Buffer scratch_;
  std::optional<long> sms_;
  std::uint64_t fingerprint_ = 0;
};

}  // namespace

std::unique_ptr<Workload> MakeTensorCollective(const Machine& machine,
                                               SharedLaneCommunicator communicator,
                                               std::vector<TensorCall> calls, std::uint32_t seed,
                                               CallOrder order) {
  return std::make_unique<TensorCollectiveWorkload>(machine, std::move(communicator),
                                                    std::move(calls), seed, order);
}

}  // namespace overlapbench
