#include <utility>
#include <vector>

#include "device/launch.h"
#include "kernels/master_weights.h"
#include "workload/element.h"
#include "workload/tensor_step.h"

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

template <class Body>
void LaunchOn(Stream& stream, const Body& body) {
  Launch(stream, BlocksFor(body.packs, kWeightsTile), body);
}

// Calls `enqueue` with the size of an element, 2 or 4 bytes, as its template argument.
template <class Enqueue>
void OfSize(Element element, const Enqueue& enqueue) {
  if (SizeOf(element) == 2)
    enqueue.template operator()<2>();
  else
    enqueue.template operator()<4>();
}

// A step bound by memory.
TensorStep MemoryStep(std::vector<SharedTensor> inputs, const SharedTensor& output,
                      std::uint32_t seed) {
  TensorStep step = StepOn(std::move(inputs), output, seed);
  step.cost.memory_bytes = step.cost.moved_bytes;
  return step;
}

}  // namespace

MasterWeights::MasterWeights(Device& device, SharedTensor gradients, SharedTensor weights)
    : gradients(std::move(gradients)), weights(std::move(weights)) {
  TensorShape shape = this->gradients->shape();
  shape.element = Element::kFloat32;
  master = MakeTensor(device, shape);
  updated = MakeTensor(device, shape);
}

std::unique_ptr<Workload> MakeMasterUpdate(const Machine& machine, const MasterWeights& weights,
                                           std::uint32_t seed) {
  constexpr float kRate = 1.0F / 64;
  const SharedTensor& master = weights.master;
  const SharedTensor& gradients = weights.gradients;
  const SharedTensor& updated = weights.updated;
  TensorStep step = MemoryStep({master, gradients}, updated, seed);
  step.enqueue = [master, gradients, updated](Stream& stream, long first, long rows) {
    const TensorShape& shape = gradients->shape();
    OfSize(shape.element, [&]<std::size_t kBytes>() {
      LaunchOn(stream, MasterUpdateBody<kBytes>{
                           PacksAt<FloatPack>(updated, first), PacksAt<FloatPack>(master, first),
                           PacksAt<ElementPack<kBytes>>(gradients, first),
                           rows * shape.columns / kPackLanes, shape.element, kRate});
    });
  };
  step.oracle = [master, gradients](int rank, long row, long column) {
    return master->Expected(rank, row, column) - kRate * gradients->Expected(rank, row, column);
  };
  step.error = [gradients] {
    return gradients->error().AsTerm().And(ErrorOfSum(2)).Stored(Element::kFloat32);
  };
  return MakeTensorStep(machine, step);
}

std::unique_ptr<Workload> MakeConversion(const Machine& machine, const MasterWeights& weights,
                                         std::uint32_t seed) {
  const SharedTensor& updated = weights.updated;
  const SharedTensor& converted = weights.weights;
  TensorStep step = MemoryStep({updated}, converted, seed);
  step.enqueue = [updated, converted](Stream& stream, long first, long rows) {
    const TensorShape& shape = converted->shape();
    OfSize(shape.element, [&]<std::size_t kBytes>() {
      LaunchOn(stream, ConversionBody<kBytes>{PacksAt<ElementPack<kBytes>>(converted, first),
                                              PacksAt<FloatPack>(updated, first),
                                              rows * shape.columns / kPackLanes, shape.element});
    });
  };
  step.oracle = [updated](int rank, long row, long column) {
    return updated->Expected(rank, row, column);
  };
  step.error = [updated, element = converted->shape().element] {
    return updated->error().Stored(element);
  };
  return MakeTensorStep(machine, step);
}

}  // namespace overlapbench
