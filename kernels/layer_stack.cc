#include "kernels/layer_stack.h"

#include <fmt/core.h>

#include <utility>

#include "kernels/linear.h"
#include "kernels/mlp.h"
#include "ranks/ranks.h"

namespace overlapbench {
namespace {

constexpr long kRowsApart = 16;  // from one layer's Xᵀ to the next's

class PassWorkload : public Workload {
 public:
  PassWorkload(const Machine& machine, std::shared_ptr<LayerStack> stack, Pass pass,
               std::uint32_t seed)
      : machine_(machine),
        stack_(std::move(stack)),
        is_backward_(pass == Pass::kBackward),
        seed_(seed),
        products_(MakeProducts(machine)),
        through_(products_->Make({stack_->tokens, stack_->width, stack_->width})),
        of_gradient_(products_->Make({stack_->width, stack_->width, stack_->tokens})) {}

  void Connect() override {
    for (const SharedTensor& tensor :
         {stack_->inputs, outputs(), stack_->weights, stack_->transposed, stack_->gradients})
      tensor->Connect();
  }

  [[nodiscard]] Cost cost() const override {
    Cost cost;
    cost.Add({stack_->tokens, stack_->width, stack_->width},
             static_cast<double>(stack_->layers) * (is_backward_ ? 2 : 1));
    return cost;
  }

  void Reset(Stream& stream) override {
    std::uint32_t seed = seed_;
    for (const SharedTensor& input : {stack_->inputs, stack_->weights, stack_->transposed}) {
      constexpr std::uint32_t kApart = 1U << 24;
      input->Fill(stream, machine_.ranks.rank(), seed);
      seed += kApart;
    }
    outputs()->PoisonRows(stream, 0, stack_->tokens);
    if (!is_backward_) return;
    stack_->gradients->PoisonRows(stream, 0, stack_->layers * stack_->width);
    ExpectGradients();
  }

  void Enqueue(Stream& stream) override {
    for (long layer = 0; layer < stack_->layers; ++layer) EnqueueLayer(stream, layer);
  }
  void EnqueuePart(Stream& stream, const Part& part) override {
    if (part.count != stack_->layers)
      throw Error(fmt::format("{} layers cannot be cut into {} parts", stack_->layers, part.count));
    EnqueueLayer(stream, part.index);
  }

  Verdict Verify(Stream& stream) override {
    ExpectOutputs();
    Verdict verdict = outputs()->Verify(machine_, stream);
    if (!is_backward_ || !verdict.fault.empty()) {
      fingerprint_ = outputs()->Fingerprint(machine_, stream);
      return verdict;
    }
    fingerprint_ = stack_->gradients->Fingerprint(machine_, stream);
    return stack_->gradients->Verify(machine_, stream);
  }
  [[nodiscard]] std::optional<std::uint64_t> Fingerprint() const override { return fingerprint_; }
  [[nodiscard]] std::string IneffectiveKnob() override { return products_->IneffectiveKnob(); }

 private:
  [[nodiscard]] const SharedTensor& outputs() const {
    return is_backward_ ? stack_->input_gradients : stack_->outputs;
  }
  // The place of `step`'s layer among the weights: a backward pass begins with the last.
  [[nodiscard]] long LayerAt(long step) const {
    return is_backward_ ? stack_->layers - 1 - step : step;
  }

  void EnqueueLayer(Stream& stream, long step) {
    const long width = stack_->width;
    through_->Enqueue(stream, stack_->inputs->Row(0), stack_->weights->Row(LayerAt(step) * width),
                      nullptr, outputs()->Row(0));
    if (is_backward_)
      of_gradient_->Enqueue(stream, stack_->transposed->Row(step * kRowsApart),
                            stack_->inputs->Row(0), nullptr, stack_->gradients->Row(step * width));
  }

  // The last layer's outputs are left.
  void ExpectOutputs() const {
    outputs()->Expect(
        [inputs = stack_->inputs, weights = stack_->weights, width = stack_->width,
         first = LayerAt(stack_->layers - 1) * stack_->width](int rank, long row, long column) {
          double sum = 0;
          for (long i = 0; i < width; ++i)
            sum += inputs->Expected(rank, row, i) * weights->Expected(rank, first + i, column);
          return sum;
        },
        [products = products_] { return products->error(); });
  }
  void ExpectGradients() const {
    stack_->gradients->Expect(
        [inputs = stack_->inputs, transposed = stack_->transposed, width = stack_->width,
         tokens = stack_->tokens](int rank, long row, long column) {
          const long first = row / width * kRowsApart + row % width;
          double sum = 0;
          for (long i = 0; i < tokens; ++i)
            sum += transposed->Expected(rank, first, i) * inputs->Expected(rank, i, column);
          return sum;
        },
        [products = products_] { return products->error(); });
  }

  Machine machine_;
  std::shared_ptr<LayerStack> stack_;
  bool is_backward_;
  std::uint32_t seed_;
  std::shared_ptr<Products> products_;
  std::unique_ptr<Product> through_;
  std::unique_ptr<Product> of_gradient_;
  std::optional<std::uint64_t> fingerprint_;
};

// Bound by memory: it reads two values and writes one.
class UpdateWorkload : public Workload {
 public:
  UpdateWorkload(const Machine& machine, std::shared_ptr<LayerStack> stack, SharedTensor sums,
                 std::uint32_t seed)
      : machine_(machine), stack_(std::move(stack)), sums_(std::move(sums)), seed_(seed) {}

  void Connect() override {
    for (const SharedTensor& tensor : {stack_->weights, sums_, stack_->updated}) tensor->Connect();
  }
  [[nodiscard]] Cost cost() const override {
    constexpr double kOperands = 3;
    Cost cost;
    cost.moved_bytes = kOperands * static_cast<double>(stack_->weights->shape().bytes());
    return cost;
  }
  void Reset(Stream& stream) override {
    stack_->weights->Fill(stream, machine_.ranks.rank(), seed_);
    sums_->Fill(stream, machine_.ranks.rank(), seed_ + 1);
    stack_->updated->PoisonRows(stream, 0, stack_->updated->shape().rows);
    stack_->updated->Expect(
        [weights = stack_->weights, sums = sums_](int rank, long row, long column) {
          return weights->Expected(rank, row, column) - kRate * sums->Expected(rank, row, column);
        },
        [sums = sums_, element = sums_->shape().element] {
          return sums->error().AsTerm().And(ErrorOfSum(2)).Stored(element);
        });
  }
  void Enqueue(Stream& stream) override {
    EnqueueUpdate(stream, sums_->shape().element, sums_->count(), stack_->updated->Row(0),
                  stack_->weights->Row(0), sums_->Row(0), kRate);
  }
  Verdict Verify(Stream& stream) override {
    fingerprint_ = stack_->updated->Fingerprint(machine_, stream);
    return stack_->updated->Verify(machine_, stream);
  }
  [[nodiscard]] std::optional<std::uint64_t> Fingerprint() const override { return fingerprint_; }

 private:
  static constexpr float kRate = 1.0F / 64;

  Machine machine_;
  std::shared_ptr<LayerStack> stack_;
  SharedTensor sums_;
  std::uint32_t seed_;
  std::optional<std::uint64_t> fingerprint_;
};

}  // namespace

LayerStack::LayerStack(Device& device, long layers, long width, long tokens, SharedTensor gradients)
    : layers(layers), width(width), tokens(tokens), gradients(std::move(gradients)) {
  const auto make = [&](long rows, long columns) {
    return MakeTensor(device, {.element = LayerElement(device), .rows = rows, .columns = columns});
  };
  inputs = make(tokens, width);
  outputs = make(tokens, width);
  input_gradients = make(tokens, width);
  weights = make(layers * width, width);
  transposed = make(width + (layers - 1) * kRowsApart, tokens);
  updated = make(layers * width, width);
}

TensorShape LayerStack::ShapeOfGradients(Device& device, long layers, long width) {
  return {.element = LayerElement(device), .rows = layers * width, .columns = width};
}

std::size_t LayerStack::bytes() const {
  return 3 * inputs->shape().bytes() + 2 * weights->shape().bytes() + transposed->shape().bytes();
}

std::unique_ptr<Workload> MakePass(const Machine& machine, std::shared_ptr<LayerStack> stack,
                                   Pass pass, std::uint32_t seed) {
  return std::make_unique<PassWorkload>(machine, std::move(stack), pass, seed);
}

std::unique_ptr<Workload> MakeUpdate(const Machine& machine, std::shared_ptr<LayerStack> stack,
                                     SharedTensor sums, std::uint32_t seed) {
  return std::make_unique<UpdateWorkload>(machine, std::move(stack), std::move(sums), seed);
}

}  // namespace overlapbench
