#include "kernels/experts.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "kernels/expert_rows.h"
#include "kernels/linear.h"
#include "kernels/product_group.h"
#include "ranks/ranks.h"

namespace overlapbench {
namespace {

// Values that a kernel looks up.
template <class Value>
class Table {
 public:
  Table(Device& device, std::vector<Value> values)
      : values_(std::move(values)),
        buffer_(device.Allocate(values_.size() * sizeof(Value), MemoryKind::kDevice)) {}
  void Fill(Stream& stream) const {
    stream.Copy(buffer_.data(), values_.data(), values_.size() * sizeof(Value));
  }
  [[nodiscard]] const Value* From(long index) const {
    return static_cast<const Value*>(buffer_.data()) + index;
  }

 private:
  std::vector<Value> values_;
  Buffer buffer_;
};

// The base of the three works: they run micro-batch by micro-batch, and leave one tensor.
class ExpertWork : public Workload {
 public:
  void Connect() override {
    for (const SharedTensor& tensor : tensors_) tensor->Connect();
  }
  void Enqueue(Stream& stream) override {
    for (long i = 0; i < routing().shape().microbatches; ++i) EnqueueMicrobatch(stream, i);
  }
  void EnqueuePart(Stream& stream, const Part& part) override {
    if (part.count != routing().shape().microbatches)
      throw Error(fmt::format("{} micro-batches cannot be cut into {} parts",
                              routing().shape().microbatches, part.count));
    EnqueueMicrobatch(stream, part.index);
  }
  Verdict Verify(Stream& stream) override {
    return Keep(CheckLeft(machine_, stream, {{result(), 0, result()->shape().rows}}));
  }
  [[nodiscard]] std::optional<std::uint64_t> Fingerprint() const override { return fingerprint_; }

 protected:
  // The last of the tensors is the result.
  ExpertWork(const Machine& machine, ExpertLayer layer, std::uint32_t seed,
             std::vector<SharedTensor> tensors)
      : machine_(machine), layer_(std::move(layer)), seed_(seed), tensors_(std::move(tensors)) {}

  Verdict Keep(const Result& result) {
    fingerprint_ = result.fingerprint;
    return result.verdict;
  }

  virtual void EnqueueMicrobatch(Stream& stream, long microbatch) = 0;

  // Fills the inputs, and poisons the result.
  void ResetTensors(Stream& stream) {
    constexpr std::uint32_t kApart = 1U << 24;
    for (std::size_t i = 0; i + 1 < tensors_.size(); ++i)
      tensors_[i]->Fill(stream, rank(), seed_ + static_cast<std::uint32_t>(i) * kApart);
    result()->PoisonRows(stream, 0, result()->shape().rows);
  }

  [[nodiscard]] const Routing& routing() const { return *layer_.routing; }
  [[nodiscard]] int rank() const { return machine_.ranks.rank(); }
  [[nodiscard]] const SharedTensor& result() const { return tensors_.back(); }
  [[nodiscard]] Element element() const { return result()->shape().element; }
  [[nodiscard]] long width() const { return result()->shape().columns; }
  // The bytes of `rows` rows.
  [[nodiscard]] double BytesOf(long rows) const {
    return static_cast<double>(rows * width()) * static_cast<double>(SizeOf(element()));
  }
  [[nodiscard]] long tokens_of_microbatch() const {
    return routing().shape().tokens / routing().shape().microbatches;
  }
  [[nodiscard]] long rows_of_microbatch() const {
    return routing().rows() / routing().shape().microbatches;
  }

  Machine machine_;
  ExpertLayer layer_;

 private:
  std::optional<std::uint64_t> fingerprint_;
  std::uint32_t seed_;
  std::vector<SharedTensor> tensors_;
};

class Permutation : public ExpertWork {
 public:
  Permutation(const Machine& machine, const ExpertLayer& layer, std::uint32_t seed)
      : ExpertWork(machine, layer, seed, {layer.tokens, layer.sent}),
        sources_(machine.device, Sources(*layer.routing, machine.ranks.rank())) {}

  [[nodiscard]] Cost cost() const override {
    return {.moved_bytes = 2 * BytesOf(routing().rows())};
  }
  void Reset(Stream& stream) override {
    ResetTensors(stream);
    sources_.Fill(stream);
    result()->Expect(
        [tokens = layer_.tokens, routing = layer_.routing](int rank, long row, long column) {
          const long token = routing->TokenAt(rank, row);
          return token < 0 ? 0 : tokens->Expected(rank, token, column);
        },
        [tokens = layer_.tokens] { return tokens->error(); });
  }

 protected:
  void EnqueueMicrobatch(Stream& stream, long microbatch) override {
    const long first = microbatch * rows_of_microbatch();
    EnqueueRowCopy(stream, {.element = element(),
                            .columns = width(),
                            .rows = rows_of_microbatch(),
                            .output = result()->Row(first),
                            .input = layer_.tokens->Row(0),
                            .source = sources_.From(first)});
  }

 private:
  static std::vector<std::int32_t> Sources(const Routing& routing, int rank) {
    std::vector<std::int32_t> sources;
    for (long row = 0; row < routing.rows(); ++row)
      sources.push_back(static_cast<std::int32_t>(routing.TokenAt(rank, row)));
    return sources;
  }

  Table<std::int32_t> sources_;
};

class Experts : public ExpertWork {
 public:
  Experts(const Machine& machine, const ExpertLayer& layer, std::uint32_t seed)
      : ExpertWork(machine, layer, seed,
                   {layer.sent, layer.received, layer.weights, layer.results}),
        padding_(machine.device, std::vector<std::int32_t>(layer.routing->rows(), -1)) {
    if (!layer.in_one_call) products_ = MakeProducts(machine);
    for (long i = 0; i < routing().shape().microbatches; ++i)
      pieces_.push_back(routing().PiecesOf(rank(), i));
  }

  [[nodiscard]] Cost cost() const override {
    Cost cost;
    cost.Add({routing().LoadOf(rank()), width(), width()});
    return cost;
  }
  void Reset(Stream& stream) override {
    ResetTensors(stream);
    padding_.Fill(stream);
    EnqueueRowCopy(stream, {.element = element(),
                            .columns = width(),
                            .rows = routing().rows(),
                            .output = result()->Row(0),
                            .input = layer_.received->Row(0),
                            .source = padding_.From(0)});
    for (const auto& pieces : pieces_) {
      for (const auto& [first, rows, expert] : pieces) result()->PoisonRows(stream, first, rows);
    }
    if (layer_.in_one_call && groups_ == nullptr)
      groups_ = MakeProductGroups(machine_, stream, width(), width(), Groups());
    ExpectProducts();
  }
  // Checks the rows that have results.
  Verdict Verify(Stream& stream) override {
    std::vector<TensorRows> written;
    for (const auto& pieces : pieces_) {
      for (const auto& [first, rows, expert] : pieces) written.push_back({result(), first, rows});
    }
    return Keep(CheckLeft(machine_, stream, written));
  }
  [[nodiscard]] std::string IneffectiveKnob() override {
    return products_ == nullptr ? "" : products_->IneffectiveKnob();
  }

 protected:
  void EnqueueMicrobatch(Stream& stream, long microbatch) override {
    if (layer_.in_one_call) return groups_->Enqueue(stream, microbatch);
    for (const Routing::Piece& piece : pieces_[microbatch]) {
      const auto [rows, a, w, d] = ProductOf(piece);
      std::unique_ptr<Product>& product = product_of_rows_[rows];
      if (product == nullptr) product = products_->Make({rows, width(), width()});
      product->Enqueue(stream, a, w, nullptr, d);
    }
  }

 private:
  [[nodiscard]] GroupMember ProductOf(const Routing::Piece& piece) const {
    const auto& [first, rows, expert] = piece;
    const SharedTensor& from = routing().StaysOn(rank(), first) ? layer_.sent : layer_.received;
    return {rows, from->Row(first), layer_.weights->Row(expert * width()), result()->Row(first)};
  }
  [[nodiscard]] std::vector<ProductGroup> Groups() const {
    std::vector<ProductGroup> groups;
    for (const auto& pieces : pieces_) {
      ProductGroup& group = groups.emplace_back();
      for (const Routing::Piece& piece : pieces) group.push_back(ProductOf(piece));
    }
    return groups;
  }

  void ExpectProducts() {
    result()->Expect(
        [sent = layer_.sent, received = layer_.received, weights = layer_.weights,
         routing = layer_.routing, width = width()](int rank, long row, long column) {
          const long expert = routing->ExpertAt(rank, row);
          const Tensor& from = routing->StaysOn(rank, row) ? *sent : *received;
          double sum = 0;
          for (long i = 0; expert >= 0 && i < width; ++i) {
            sum +=
                from.Expected(rank, row, i) * weights->Expected(rank, expert * width + i, column);
          }
          return sum;
        },
        [sent = layer_.sent, received = layer_.received, products = products_, groups = groups_] {
          const RoundingError own = groups == nullptr ? products->error() : groups->error();
          return own.And(WorseOf(sent->error(), received->error()).AsTerm());
        });
  }

  Table<std::int32_t> padding_;
  std::shared_ptr<Products> products_;
  std::map<long, std::unique_ptr<Product>> product_of_rows_;
  std::shared_ptr<ProductGroups> groups_;            // by micro-batch
  std::vector<std::vector<Routing::Piece>> pieces_;  // by micro-batch
};

class WeightedSum : public ExpertWork {
 public:
  WeightedSum(const Machine& machine, const ExpertLayer& layer, std::uint32_t seed)
      : ExpertWork(machine, layer, seed, {layer.results, layer.returned, layer.sums}),
        sources_(machine.device, OfChoices<std::int32_t>([&](long token, long choice) {
                   const long row = routing().RowOf(rank(), token, choice);
                   return routing().StaysOn(rank(), row) ? routing().rows() + row : row;
                 })),
        weights_(machine.device, OfChoices<float>([&](long token, long choice) {
                   return routing().WeightOf(rank(), token, choice);
                 })) {}

  [[nodiscard]] Cost cost() const override {
    const RoutingShape& shape = routing().shape();
    return {.moved_bytes = BytesOf(shape.tokens * (shape.topk + 1))};
  }
  void Reset(Stream& stream) override {
    ResetTensors(stream);
    sources_.Fill(stream);
    weights_.Fill(stream);
    result()->Expect(
        [results = layer_.results, returned = layer_.returned, routing = layer_.routing](
            int rank, long token, long column) {
          double sum = 0;
          for (long choice = 0; choice < routing->shape().topk; ++choice) {
            const long row = routing->RowOf(rank, token, choice);
            const Tensor& from = routing->StaysOn(rank, row) ? *results : *returned;
            sum += routing->WeightOf(rank, token, choice) * from.Expected(rank, row, column);
          }
          return sum;
        },
        [results = layer_.results, returned = layer_.returned, element = element(),
         topk = routing().shape().topk] {
          return WorseOf(results->error(), returned->error())
              .AsTerm()
              .And(ErrorOfSum(topk))
              .Stored(element);
        });
  }

 protected:
  void EnqueueMicrobatch(Stream& stream, long microbatch) override {
    const long topk = routing().shape().topk;
    const long first = microbatch * tokens_of_microbatch();
    EnqueueRowSum(stream, {.element = element(),
                           .columns = width(),
                           .rows = tokens_of_microbatch(),
                           .terms = topk,
                           .output = result()->Row(first),
                           .input = layer_.returned->Row(0),
                           .input_rows = routing().rows(),
                           .more = layer_.results->Row(0),
                           .source = sources_.From(first * topk),
                           .weight = weights_.From(first * topk)});
  }

 private:
  template <class Value, class Of>
  [[nodiscard]] std::vector<Value> OfChoices(const Of& of) const {
    std::vector<Value> values;
    for (long token = 0; token < routing().shape().tokens; ++token) {
      for (long choice = 0; choice < routing().shape().topk; ++choice)
        values.push_back(static_cast<Value>(of(token, choice)));
    }
    return values;
  }

  Table<std::int32_t> sources_;
  Table<float> weights_;
};

}  // namespace

std::unique_ptr<Workload> MakePermutation(const Machine& machine, const ExpertLayer& layer,
                                          std::uint32_t seed) {
  return std::make_unique<Permutation>(machine, layer, seed);
}

std::unique_ptr<Workload> MakeExperts(const Machine& machine, const ExpertLayer& layer,
                                      std::uint32_t seed) {
  return std::make_unique<Experts>(machine, layer, seed);
}

std::unique_ptr<Workload> MakeWeightedSum(const Machine& machine, const ExpertLayer& layer,
                                          std::uint32_t seed) {
  return std::make_unique<WeightedSum>(machine, layer, seed);
}

}  // namespace overlapbench
