#include <functional>

#include "device/launch.h"
#include "kernels/block_sum.h"
#include "kernels/pack.h"
#include "workload/tensor_step.h"

namespace overlapbench {
namespace {

constexpr int kSumThreads = 256;

template <Element kElement>
struct BlockSumBody {
  static constexpr int kThreads = kSumThreads;
  static constexpr int kLanes = Pack<kElement>::kLanes;
  const Pack<kElement>* own;
  const Pack<kElement>* arrivals;
  Pack<kElement>* sums;
  long packs;
  long apart;  // packs from one block to the next
  long blocks;

  OVERLAPBENCH_BODY void operator()(const Block& block) const {
    block.ForEach<kSumThreads>(packs, [this](long i) {
      float total[kLanes];
      const Pack<kElement> first = own[i];
      for (int lane = 0; lane < kLanes; ++lane) total[lane] = first.Get(lane);
      for (long from = 0; from < blocks; ++from) {
        const Pack<kElement> pack = arrivals[from * apart + i];
        for (int lane = 0; lane < kLanes; ++lane) total[lane] += pack.Get(lane);
      }
      Pack<kElement> result{};
      for (int lane = 0; lane < kLanes; ++lane) result.Set(lane, total[lane]);
      sums[i] = result;
    });
  }
};

void EnqueueBlockSum(const BlockSum& sum, Stream& stream, long first, long count) {
  const TensorShape& shape = sum.sums->shape();
  ForElement(shape.element, [&]<Element kElement>() {
    const long columns = shape.columns / Pack<kElement>::kLanes;
    const long packs = count * columns;
    Launch(stream, BlocksFor(packs, kSumThreads),
           BlockSumBody<kElement>{PacksOf<kElement>(sum.own->Row(first)),
                                  PacksOf<kElement>(sum.arrivals->Row(first)),
                                  PacksOf<kElement>(sum.sums->Row(first)), packs,
                                  shape.rows * columns, sum.arrivals->shape().rows / shape.rows});
  });
}

}  // namespace

std::unique_ptr<Workload> MakeBlockSum(const Machine& machine, const BlockSum& sum) {
  const auto& [own, arrivals, sums, seed] = sum;
  const long rows = sums->shape().rows;
  const long blocks = arrivals->shape().rows / rows;
  TensorStep step = StepOn({own, arrivals}, sums, seed);
  step.cost.flops = static_cast<double>(arrivals->count());
  step.cost.moved_bytes =
      static_cast<double>(blocks + 2) * static_cast<double>(sums->shape().bytes());
  step.enqueue = std::bind_front(EnqueueBlockSum, sum);
  step.oracle = [own = own, arrivals = arrivals, rows, blocks](int rank, long row, long column) {
    double total = own->Expected(rank, row, column);
    for (long from = 0; from < blocks; ++from)
      total += arrivals->Expected(rank, from * rows + row, column);
    return total;
  };
  step.error = [own = own, arrivals = arrivals, terms = 1 + blocks,
                element = sums->shape().element] {
    return WorseOf(own->error(), arrivals->error()).AsTerm().And(ErrorOfSum(terms)).Stored(element);
  };
  return MakeTensorStep(machine, step);
}

}  // namespace overlapbench
