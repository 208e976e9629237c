#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "device/launch.h"
#include "kernels/master_weights.h"
#include "ranks/ranks.h"
#include "workload/element.h"

namespace overlapbench {
namespace {

constexpr long kWeightsTile = 256;
constexpr int kPackLanes = 4;  // 16 bytes of float32

struct alignas(16) FloatPack {
  float values[kPackLanes];
};
// As many elements of `kBytes` bytes as a FloatPack has.
template <std::size_t kBytes>
struct alignas(kPackLanes* kBytes) ElementPack {
  std::byte bytes[kPackLanes * kBytes];
};

// `kBytes`: the size of a gradient.
template <std::size_t kBytes>
struct MasterUpdateBody {
  static constexpr int kThreads = 256;
  FloatPack* updated;
  const FloatPack* master;
  const ElementPack<kBytes>* gradients;
  long packs;
  Element element;
  float rate;

  OVERLAPBENCH_BODY void operator()(const Block& block) const {
    block.ForEach<kWeightsTile>(packs, [this](long i) {
      FloatPack pack = master[i];
      const ElementPack<kBytes> gradient = gradients[i];
      for (int lane = 0; lane < kPackLanes; ++lane)
        pack.values[lane] -= rate * LoadFloat(gradient.bytes, lane, element);
      updated[i] = pack;
    });
  }
};

// `kBytes`: the size of a weight.
template <std::size_t kBytes>
struct ConversionBody {
  static constexpr int kThreads = 256;
  ElementPack<kBytes>* weights;
  const FloatPack* updated;
  long packs;
  Element element;

  OVERLAPBENCH_BODY void operator()(const Block& block) const {
    block.ForEach<kWeightsTile>(packs, [this](long i) {
      const FloatPack pack = updated[i];
      ElementPack<kBytes> weight;
      for (int lane = 0; lane < kPackLanes; ++lane)
        Store(weight.bytes, lane, element, pack.values[lane]);
      weights[i] = weight;
    });
  }
};

template <class Pack>
Pack* PacksAt(const SharedTensor& tensor, long row) {
  return static_cast<Pack*>(static_cast<void*>(tensor->Row(row)));
}

// What update and conversion share: parts, and a result that is a tensor.
class WeightsWorkload : public Workload {
 public:
  WeightsWorkload(const Machine& machine, std::shared_ptr<MasterWeights> weights,
                  std::uint32_t seed)
      : machine_(machine), weights_(std::move(weights)), seed_(seed) {}

  void Enqueue(Stream& stream) override { EnqueueRows(stream, 0, result()->shape().rows); }
  void EnqueuePart(Stream& stream, const Part& part) override {
    if (part.count != weights_->layers)
      throw Error(std::to_string(weights_->layers) + " layers cannot be cut into " +
                  std::to_string(part.count) + " parts");
    const long rows = result()->shape().rows / part.count;
    EnqueueRows(stream, part.index * rows, rows);
  }
  Verdict Verify(Stream& stream) override {
    fingerprint_ = result()->Fingerprint(machine_, stream);
    return result()->Verify(machine_, stream);
  }
  [[nodiscard]] std::optional<std::uint64_t> Fingerprint() const override { return fingerprint_; }

 protected:
  [[nodiscard]] virtual const SharedTensor& result() const = 0;
  virtual void EnqueueRows(Stream& stream, long first, long rows) const = 0;

  static Cost CostOf(std::initializer_list<SharedTensor> tensors) {
    Cost cost;
    for (const SharedTensor& tensor : tensors)
      cost.memory_bytes += static_cast<double>(tensor->shape().bytes());
    cost.moved_bytes = cost.memory_bytes;
    return cost;
  }
  void Fill(Stream& stream, const SharedTensor& tensor, std::uint32_t seed) const {
    tensor->Fill(stream, machine_.ranks.rank(), seed);
  }
  void PoisonResult(Stream& stream) override {
    result()->PoisonRows(stream, 0, result()->shape().rows);
  }
  [[nodiscard]] long PacksOf(long rows) const {
    return rows * result()->shape().columns / kPackLanes;
  }
  template <class Body>
  static void LaunchOn(Stream& stream, const Body& body) {
    constexpr long kMostBlocks = 8192;
    const long tiles = (body.packs + kWeightsTile - 1) / kWeightsTile;
    Launch(stream, static_cast<int>(std::min(tiles, kMostBlocks)), body);
  }

  Machine machine_;
  std::shared_ptr<MasterWeights> weights_;
  std::uint32_t seed_;
  std::optional<std::uint64_t> fingerprint_;
};

class MasterUpdateWorkload : public WeightsWorkload {
 public:
  using WeightsWorkload::WeightsWorkload;
  void Connect() override {
    for (const SharedTensor& tensor : {weights_->gradients, weights_->master, weights_->updated})
      tensor->Connect();
  }
  [[nodiscard]] Cost cost() const override {
    return CostOf({weights_->gradients, weights_->master, weights_->updated});
  }
  void Reset(Stream& stream) override {
    Fill(stream, weights_->master, seed_);
    Fill(stream, weights_->gradients, seed_ + 1);
    PoisonResult(stream);
    weights_->updated->Expect(
        [master = weights_->master, gradients = weights_->gradients](int rank, long row,
                                                                     long column) {
          return master->Expected(rank, row, column) -
                 kRate * gradients->Expected(rank, row, column);
        },
        [gradients = weights_->gradients] {
          return gradients->error().AsTerm().And(ErrorOfSum(2)).Stored(Element::kFloat32);
        });
  }

 private:
  static constexpr float kRate = 1.0F / 64;

  [[nodiscard]] const SharedTensor& result() const override { return weights_->updated; }
  void EnqueueRows(Stream& stream, long first, long rows) const override {
    const Element element = weights_->gradients->shape().element;
    const auto enqueue = [&]<std::size_t kBytes>() {
      LaunchOn(stream,
               MasterUpdateBody<kBytes>{PacksAt<FloatPack>(weights_->updated, first),
                                        PacksAt<FloatPack>(weights_->master, first),
                                        PacksAt<ElementPack<kBytes>>(weights_->gradients, first),
                                        PacksOf(rows), element, kRate});
    };
    if (SizeOf(element) == 2)
      enqueue.template operator()<2>();
    else
      enqueue.template operator()<4>();
  }
};

class ConversionWorkload : public WeightsWorkload {
 public:
  using WeightsWorkload::WeightsWorkload;
  void Connect() override {
    weights_->updated->Connect();
    weights_->weights->Connect();
  }
  [[nodiscard]] Cost cost() const override {
    return CostOf({weights_->updated, weights_->weights});
  }
  void Reset(Stream& stream) override {
    Fill(stream, weights_->updated, seed_);
    PoisonResult(stream);
    weights_->weights->Expect(
        [updated = weights_->updated](int rank, long row, long column) {
          return updated->Expected(rank, row, column);
        },
        [updated = weights_->updated, element = weights_->weights->shape().element] {
          return updated->error().Stored(element);
        });
  }

 private:
  [[nodiscard]] const SharedTensor& result() const override { return weights_->weights; }
  void EnqueueRows(Stream& stream, long first, long rows) const override {
    const Element element = weights_->weights->shape().element;
    const auto enqueue = [&]<std::size_t kBytes>() {
      LaunchOn(stream, ConversionBody<kBytes>{
                           PacksAt<ElementPack<kBytes>>(weights_->weights, first),
                           PacksAt<FloatPack>(weights_->updated, first), PacksOf(rows), element});
    };
    if (SizeOf(element) == 2)
      enqueue.template operator()<2>();
    else
      enqueue.template operator()<4>();
  }
};

}  // namespace

MasterWeights::MasterWeights(Device& device, long layers, SharedTensor gradients,
                             SharedTensor weights)
    : layers(layers), gradients(std::move(gradients)), weights(std::move(weights)) {
  TensorShape shape = this->gradients->shape();
  shape.element = Element::kFloat32;
  master = MakeTensor(device, shape);
  updated = MakeTensor(device, shape);
}

std::size_t MasterWeights::bytes() const { return 2 * master->shape().bytes(); }

std::unique_ptr<Workload> MakeMasterUpdate(const Machine& machine,
                                           std::shared_ptr<MasterWeights> weights,
                                           std::uint32_t seed) {
  return std::make_unique<MasterUpdateWorkload>(machine, std::move(weights), seed);
}

std::unique_ptr<Workload> MakeConversion(const Machine& machine,
                                         std::shared_ptr<MasterWeights> weights,
                                         std::uint32_t seed) {
  return std::make_unique<ConversionWorkload>(machine, std::move(weights), seed);
}

}  // namespace overlapbench
