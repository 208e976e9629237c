#include "device/launch.h"
#include "kernels/reversed_rows.h"
#include "workload/tensor_step.h"

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

}  // namespace

std::unique_ptr<Workload> MakeReversedRows(const Machine& machine, const SharedTensor& from,
                                           const SharedTensor& to, std::uint32_t seed) {
  TensorStep step = StepOn({from}, to, seed);
  step.cost = {.copied_bytes = static_cast<double>(from->shape().bytes())};
  step.cost.memory_bytes = 2 * step.cost.copied_bytes;
  const long rows = from->shape().rows;
  step.enqueue = [from, to, rows](Stream& stream, long /*first*/, long count) {
    if (count != rows) throw Error("the reversal of rows is not cut into parts");
    const long words = static_cast<long>(from->shape().bytes() / sizeof(RowWord));
    Launch(stream, BlocksFor(words, kReversedTile),
           ReversedRowsBody{static_cast<const RowWord*>(static_cast<void*>(from->Row(0))),
                            static_cast<RowWord*>(static_cast<void*>(to->Row(0))), rows,
                            words / rows});
  };
  step.oracle = [from, rows](int rank, long row, long column) {
    return from->Expected(rank, rows - 1 - row, column);
  };
  step.error = [from] { return from->error(); };
  return MakeTensorStep(machine, step);
}

}  // namespace overlapbench
