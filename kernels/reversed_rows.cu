#include <algorithm>
#include <optional>
#include <utility>

#include "device/launch.h"
#include "kernels/reversed_rows.h"
#include "ranks/ranks.h"

namespace overlapbench {
namespace {

constexpr long kReversedTile = 256;

struct alignas(16) RowWord {
  std::uint32_t words[4];
};

struct ReversedRowsBody {
  static constexpr int kThreads = 256;
  const RowWord* from;
  RowWord* to;
  long rows;
  long words_a_row;

  OVERLAPBENCH_BODY void operator()(const Block& block) const {
    block.ForEach<kReversedTile>(rows * words_a_row, [this](long i) {
      const long row = i / words_a_row;
      to[(rows - 1 - row) * words_a_row + i % words_a_row] = from[i];
    });
  }
};

class ReversedRowsWorkload : public Workload {
 public:
  ReversedRowsWorkload(const Machine& machine, SharedTensor from, SharedTensor to,
                       std::uint32_t seed)
      : machine_(machine), from_(std::move(from)), to_(std::move(to)), seed_(seed) {}

  void Connect() override {
    from_->Connect();
    to_->Connect();
  }
  [[nodiscard]] Cost cost() const override {
    Cost cost;
    cost.copied_bytes = static_cast<double>(from_->shape().bytes());
    cost.memory_bytes = 2 * cost.copied_bytes;
    return cost;
  }
  void Reset(Stream& stream) override {
    from_->Fill(stream, machine_.ranks.rank(), seed_);
    to_->PoisonRows(stream, 0, to_->shape().rows);
    to_->Expect(
        [from = from_, last = from_->shape().rows - 1](int rank, long row, long column) {
          return from->Expected(rank, last - row, column);
        },
        [from = from_] { return from->error(); });
  }
  void Enqueue(Stream& stream) override {
    constexpr long kMostBlocks = 8192;
    const long rows = from_->shape().rows;
    const long words = static_cast<long>(from_->shape().bytes() / sizeof(RowWord));
    const long tiles = (words + kReversedTile - 1) / kReversedTile;
    Launch(stream, static_cast<int>(std::min(tiles, kMostBlocks)),
           ReversedRowsBody{static_cast<const RowWord*>(static_cast<void*>(from_->Row(0))),
                            static_cast<RowWord*>(static_cast<void*>(to_->Row(0))), rows,
                            words / rows});
  }
  Verdict Verify(Stream& stream) override {
    fingerprint_ = to_->Fingerprint(machine_, stream);
    return to_->Verify(machine_, stream);
  }
  [[nodiscard]] std::optional<std::uint64_t> Fingerprint() const override { return fingerprint_; }

 private:
  Machine machine_;
  SharedTensor from_;
  SharedTensor to_;
  std::uint32_t seed_;
  std::optional<std::uint64_t> fingerprint_;
};

}  // namespace

std::unique_ptr<Workload> MakeReversedRows(const Machine& machine, SharedTensor from,
                                           SharedTensor to, std::uint32_t seed) {
  return std::make_unique<ReversedRowsWorkload>(machine, std::move(from), std::move(to), seed);
}

}  // namespace overlapbench
