#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "device/launch.h"
#include "kernels/block_sum.h"
#include "kernels/pack.h"
#include "ranks/ranks.h"

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

class BlockSumWorkload : public Workload {
 public:
  BlockSumWorkload(const Machine& machine, BlockSum sum)
      : machine_(machine), sum_(std::move(sum)) {}

  void Connect() override {
    for (const SharedTensor& tensor : {sum_.own, sum_.arrivals, sum_.sums}) tensor->Connect();
  }
  [[nodiscard]] Cost cost() const override {
    const double bytes = static_cast<double>(sum_.sums->shape().bytes());
    Cost cost;
    cost.flops = static_cast<double>(sum_.arrivals->count());
    cost.moved_bytes = static_cast<double>(blocks() + 2) * bytes;
    return cost;
  }

  void Reset(Stream& stream) override {
    constexpr std::uint32_t kApart = 1U << 24;
    sum_.own->Fill(stream, machine_.ranks.rank(), sum_.seed);
    sum_.arrivals->Fill(stream, machine_.ranks.rank(), sum_.seed + kApart);
    sum_.sums->PoisonRows(stream, 0, rows());
    sum_.sums->Expect(
        [own = sum_.own, arrivals = sum_.arrivals, rows = rows(), blocks = blocks()](
            int rank, long row, long column) {
          double total = own->Expected(rank, row, column);
          for (long from = 0; from < blocks; ++from)
            total += arrivals->Expected(rank, from * rows + row, column);
          return total;
        },
        [own = sum_.own, arrivals = sum_.arrivals, terms = 1 + blocks(),
         element = sum_.sums->shape().element] {
          return WorseOf(own->error(), arrivals->error())
              .AsTerm()
              .And(ErrorOfSum(terms))
              .Stored(element);
        });
  }

  void Enqueue(Stream& stream) override { EnqueueRows(stream, 0, rows()); }
  void EnqueuePart(Stream& stream, const Part& part) override {
    if (rows() % part.count != 0)
      throw Error(std::to_string(rows()) + " rows cannot be cut into " +
                  std::to_string(part.count) + " parts");
    const long count = rows() / part.count;
    EnqueueRows(stream, part.index * count, count);
  }

  Verdict Verify(Stream& stream) override {
    const Result result = CheckLeft(machine_, stream, {{sum_.sums, 0, rows()}});
    fingerprint_ = result.fingerprint;
    return result.verdict;
  }
  [[nodiscard]] std::optional<std::uint64_t> Fingerprint() const override { return fingerprint_; }

 private:
  [[nodiscard]] long rows() const { return sum_.sums->shape().rows; }
  [[nodiscard]] long blocks() const { return sum_.arrivals->shape().rows / rows(); }

  void EnqueueRows(Stream& stream, long first, long count) const {
    constexpr long kMostBlocks = 8192;
    const TensorShape& shape = sum_.sums->shape();
    ForElement(shape.element, [&]<Element kElement>() {
      const long columns = shape.columns / Pack<kElement>::kLanes;
      const long packs = count * columns;
      const long grid = std::min((packs + kSumThreads - 1) / kSumThreads, kMostBlocks);
      Launch(stream, static_cast<int>(grid),
             BlockSumBody<kElement>{PacksOf<kElement>(sum_.own->Row(first)),
                                    PacksOf<kElement>(sum_.arrivals->Row(first)),
                                    PacksOf<kElement>(sum_.sums->Row(first)), packs,
                                    rows() * columns, blocks()});
    });
  }

  Machine machine_;
  BlockSum sum_;
  std::optional<std::uint64_t> fingerprint_;
};

}  // namespace

std::unique_ptr<Workload> MakeBlockSum(const Machine& machine, const BlockSum& sum) {
  return std::make_unique<BlockSumWorkload>(machine, sum);
}

}  // namespace overlapbench
