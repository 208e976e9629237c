#include "kernels/linked_layers.h"

#include <fmt/core.h>

#include <cmath>
#include <utility>

#include "kernels/linear.h"
#include "kernels/mlp.h"
#include "ranks/ranks.h"

namespace overlapbench {
namespace {

class LinkedLayersWorkload : public Workload {
 public:
  LinkedLayersWorkload(const Machine& machine, std::shared_ptr<LinkedLayers> layers, LayerRows rows,
                       std::uint32_t seed)
      : machine_(machine),
        layers_(std::move(layers)),
        is_tied_(rows == LayerRows::kTied),
        first_(is_tied_ ? layers_->free_tokens : 0),
        rows_(is_tied_ ? layers_->tokens - layers_->free_tokens : layers_->free_tokens),
        seed_(seed),
        rate_(1.0F / static_cast<float>(kSmall * machine.ranks.size())),
        products_(MakeProducts(machine)),
        product_(products_->Make({rows_, layers_->width, layers_->width})) {}

  void Connect() override {
    for (const SharedTensor& tensor : {layers_->inputs, layers_->weights, layers_->outputs})
      tensor->Connect();
    if (is_tied_) layers_->sums->Connect();
  }

  [[nodiscard]] Cost cost() const override {
    Cost cost;
    cost.Add({rows_, layers_->width, layers_->width}, static_cast<double>(layers_->layers));
    return cost;
  }

  void Reset(Stream& stream) override {
    constexpr std::uint32_t kApart = 1U << 24;
    const int rank = machine_.ranks.rank();
    layers_->inputs->Fill(stream, rank, seed_);
    layers_->weights->Fill(stream, rank, seed_ + kApart);
    if (is_tied_) layers_->sums->Fill(stream, rank, seed_ + 2 * kApart);
    for (long layer = 0; layer < layers_->layers; ++layer)
      layers_->outputs->PoisonRows(stream, FirstRow(layer), rows_);
    ExpectOutputs();
  }

  void Enqueue(Stream& stream) override {
    for (long layer = 0; layer < layers_->layers; ++layer) EnqueueLayer(stream, layer);
  }
  void EnqueuePart(Stream& stream, const Part& part) override {
    if (part.count != layers_->layers)
      throw Error(
          fmt::format("{} layers cannot be cut into {} parts", layers_->layers, part.count));
    EnqueueLayer(stream, part.index);
  }

  // Checks the last layer, which is kept however many buffers outputs take turns in.
  Verdict Verify(Stream& stream) override {
    fingerprint_ = layers_->outputs->Fingerprint(machine_, stream);
    return layers_->outputs->Verify(machine_, stream, FirstRow(layers_->layers - 1), rows_);
  }
  [[nodiscard]] std::optional<std::uint64_t> Fingerprint() const override { return fingerprint_; }
  [[nodiscard]] std::string IneffectiveKnob() override { return products_->IneffectiveKnob(); }

 private:
  static constexpr int kSmall = 32;

  [[nodiscard]] long FirstRow(long layer) const { return layer * layers_->tokens + first_; }

  void EnqueueLayer(Stream& stream, long layer) {
    const SharedTensor& outputs = layers_->outputs;
    std::byte* const output = outputs->Row(FirstRow(layer));
    product_->Enqueue(stream, layers_->inputs->Row(first_),
                      layers_->weights->Row(layer * layers_->width), nullptr, output);
    if (!is_tied_ || layer == 0) return;
    EnqueueUpdate(stream, outputs->shape().element, rows_ * layers_->width, output, output,
                  layers_->sums->Row(FirstRow(layer - 1)), rate_);
  }

  // The sums expect what is made of the outputs and own them, so the outputs must not own the sums.
  void ExpectOutputs() const {
    const std::weak_ptr<Tensor> sums = layers_->sums;
    layers_->outputs->Expect(
        [inputs = layers_->inputs, weights = layers_->weights, sums, rate = rate_,
         tokens = layers_->tokens, width = layers_->width,
         free = layers_->free_tokens](int rank, long row, long column) {
          const long layer = row / tokens;
          double sum = 0;
          for (long i = 0; i < width; ++i)
            sum += inputs->Expected(rank, row % tokens, i) *
                   weights->Expected(rank, layer * width + i, column);
          if (layer == 0 || row % tokens < free) return sum;
          return sum - rate * sums.lock()->Expected(rank, row - tokens, column);
        },
        [products = products_, ranks = machine_.ranks.size(), is_tied = IsSummed(),
         element = layers_->outputs->shape().element] {
          return is_tied ? ErrorOfTied(products->error(), ranks, element) : products->error();
        });
  }

  [[nodiscard]] bool IsSummed() const { return layers_->free_tokens < layers_->tokens; }
  // A tied output is stored twice. Sums of n ranks are sqrt(n) times as large as outputs and enter
  // with the factor 1 / (kSmall · n), so the walk w is that share s of the sums' walk, which is at
  // most w + the walk of sums of outputs without one.
  static RoundingError ErrorOfTied(const RoundingError& product, int ranks, Element element) {
    const RoundingError output = product.Stored(element);
    const double share = 1 / (kSmall * std::sqrt(ranks));
    const double of_sums = ErrorOfStoredSums(output, ranks, element).AsTerm().walk;
    return {output.own, output.walk + share * of_sums / (1 - share)};
  }

  Machine machine_;
  std::shared_ptr<LinkedLayers> layers_;
  bool is_tied_;
  long first_;  // of a layer's rows
  long rows_;
  std::uint32_t seed_;
  float rate_;
  std::shared_ptr<Products> products_;
  std::unique_ptr<Product> product_;
  std::optional<std::uint64_t> fingerprint_;
};

}  // namespace

LinkedLayers::LinkedLayers(Device& device, long layers, long free_tokens, SharedTensor outputs,
                           SharedTensor sums)
    : layers(layers),
      tokens(outputs->shape().rows / layers),
      free_tokens(free_tokens),
      width(outputs->shape().columns),
      outputs(std::move(outputs)),
      sums(std::move(sums)) {
  const auto make = [&](long rows) {
    return MakeTensor(device, {.element = LayerElement(device), .rows = rows, .columns = width});
  };
  inputs = make(tokens);
  weights = make(layers * width);
}

std::unique_ptr<Workload> MakeLinkedLayers(const Machine& machine,
                                           std::shared_ptr<LinkedLayers> layers, LayerRows rows,
                                           std::uint32_t seed) {
  return std::make_unique<LinkedLayersWorkload>(machine, std::move(layers), rows, seed);
}

}  // namespace overlapbench
