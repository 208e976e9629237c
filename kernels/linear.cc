#include "kernels/linear.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <ranges>
#include <set>
#include <tuple>
#include <utility>

#include "kernels/product_group.h"
#include "ranks/ranks.h"

namespace overlapbench {
namespace {

// The sum of `count` products, in as many chains of additions as a core has in flight.
float SumOfProducts(const float* left, const float* right, long count) {
  constexpr int kChains = 16;
  float sums[kChains] = {};
  long i = 0;
  for (; i + kChains <= count; i += kChains)
    for (int chain = 0; chain < kChains; ++chain) sums[chain] += left[i + chain] * right[i + chain];
  for (; i < count; ++i) sums[0] += left[i] * right[i];
  return std::accumulate(sums, sums + kChains, 0.0F);
}

// One row of D after the other, so that memory is read in order: as a sum of W's rows, or, where W
// is transposed, element by element.
void MultiplyRow(const ProductSize& size, long row, const float* a, const float* w,
                 const float* added, float* d) {
  float* const sums = d + row * size.n;
  for (long column = 0; column < size.n; ++column)
    sums[column] = added == nullptr ? 0 : added[row * size.n + column];
  if (size.transposed == Transposed::kW) {
    for (long column = 0; column < size.n; ++column)
      sums[column] += SumOfProducts(a + row * size.k, w + column * size.k, size.k);
    return;
  }
  for (long i = 0; i < size.k; ++i) {
    const float factor =
        size.transposed == Transposed::kA ? a[i * size.m + row] : a[row * size.k + i];
    for (long column = 0; column < size.n; ++column)
      sums[column] += factor * w[i * size.n + column];
  }
}

class HostProduct : public Product {
 public:
  HostProduct(const ProductSize& size, int blocks) : size_(size), blocks_(blocks) {}
  void Enqueue(Stream& stream, const void* a, const void* w, const void* added,
               void* d) const override {
    stream.EnqueueBlocks(blocks_, [=, size = size_, blocks = blocks_](int block) {
      for (long row = block; row < size.m; row += blocks)
        MultiplyRow(size, row, static_cast<const float*>(a), static_cast<const float*>(w),
                    static_cast<const float*>(added), static_cast<float*>(d));
    });
  }

 private:
  ProductSize size_;
  int blocks_;
};

class HostProducts : public Products {
 public:
  explicit HostProducts(int blocks) : blocks_(blocks) {}
  std::unique_ptr<Product> Make(const ProductSize& size) override {
    error_ = WorseOf(error_, ErrorOfSum(size.k).Stored(Element::kFloat32));
    return std::make_unique<HostProduct>(size, blocks_);
  }
  [[nodiscard]] RoundingError error() const override { return error_; }

 private:
  int blocks_;
  RoundingError error_;
};

class HostGroups : public ProductGroups {
 public:
  HostGroups(int blocks, long n, long k, std::vector<ProductGroup> groups)
      : blocks_(blocks), n_(n), k_(k), groups_(std::move(groups)) {}
  void Enqueue(Stream& stream, std::size_t group) const override {
    stream.EnqueueBlocks(blocks_, [this, group](int block) {
      long first = 0;  // of a product's rows, among those of all
      for (const auto& [rows, a, w, d] : groups_.at(group)) {
        const ProductSize size{rows, n_, k_};
        for (long row = (block + blocks_ - first % blocks_) % blocks_; row < rows; row += blocks_)
          MultiplyRow(size, row, static_cast<const float*>(a), static_cast<const float*>(w),
                      nullptr, static_cast<float*>(d));
        first += rows;
      }
    });
  }
  [[nodiscard]] RoundingError error() const override {
    return ErrorOfSum(k_).Stored(Element::kFloat32);
  }

 private:
  int blocks_;
  long n_;
  long k_;
  std::vector<ProductGroup> groups_;
};

class LinearWorkload : public Workload {
 public:
  LinearWorkload(const Machine& machine, std::vector<LinearProblem> problems)
      : machine_(machine), problems_(std::move(problems)), products_(MakeProducts(machine)) {}

  void Connect() override {
    for (const LinearProblem& problem : problems_) {
      for (const SharedTensor& tensor : {problem.a, problem.w, problem.added, problem.d})
        if (tensor != nullptr) tensor->Connect();
    }
  }

  [[nodiscard]] Cost cost() const override {
    Cost cost;
    for (const LinearProblem& problem : problems_) {
      const ProductSize size = SizeOfProduct(problem);
      const auto [m, n, k] = std::tuple(static_cast<double>(size.m), static_cast<double>(size.n),
                                        static_cast<double>(size.k));
      cost.Add({size.m, size.n, size.k});
      cost.moved_bytes += (m * k + k * n + m * n * (problem.added == nullptr ? 1 : 2)) *
                          static_cast<double>(SizeOf(problem.d->shape().element));
    }
    return cost;
  }

  // In reverse order: an earlier product may make what a later one reads.
  void Reset(Stream& stream) override {
    std::set<SharedTensor> filled;
    for (const LinearProblem& problem : problems_ | std::views::reverse) {
      std::uint32_t seed = problem.seed;
      for (const SharedTensor& input : {problem.a, problem.w, problem.added}) {
        constexpr std::uint32_t kApart = 1U << 24;
        if (input != nullptr && filled.insert(input).second)
          input->Fill(stream, machine_.ranks.rank(), seed);
        seed += kApart;
      }
      problem.d->PoisonRows(stream, problem.d_row, RowsOf(problem));
      ExpectProducts(problem.d);
    }
  }

  void Enqueue(Stream& stream) override {
    for (const LinearProblem& problem : problems_) EnqueueRows(stream, problem, {});
  }
  void EnqueuePart(Stream& stream, const Part& part) override {
    const auto count = static_cast<long>(problems_.size());
    if (count == 1) return EnqueueRows(stream, problems_.front(), part);
    if (count % part.count != 0)
      throw Error(fmt::format("{} products cannot be cut into {} parts", count, part.count));
    const long each = count / part.count;
    for (long i = part.index * each; i < (part.index + 1) * each; ++i)
      EnqueueRows(stream, problems_[i], {});
  }

  Verdict Verify(Stream& stream) override {
    std::vector<TensorRows> written;
    for (const LinearProblem& problem : problems_)
      written.push_back({problem.d, problem.d_row, RowsOf(problem)});
    const Result result = CheckLeft(machine_, stream, written);
    fingerprint_ = result.fingerprint;
    return result.verdict;
  }
  [[nodiscard]] std::optional<std::uint64_t> Fingerprint() const override { return fingerprint_; }
  [[nodiscard]] std::string IneffectiveKnob() override { return products_->IneffectiveKnob(); }

 private:
  static long RowsOf(const LinearProblem& problem) {
    return problem.rows > 0 ? problem.rows : problem.d->shape().rows;
  }
  static ProductSize SizeOfProduct(const LinearProblem& problem) {
    return {RowsOf(problem), problem.d->shape().columns, problem.a->shape().columns};
  }

  void EnqueueRows(Stream& stream, const LinearProblem& problem, const Part& part) {
    ProductSize size = SizeOfProduct(problem);
    if (size.m % part.count != 0)
      throw Error(fmt::format("{} rows cannot be cut into {} parts", size.m, part.count));
    size.m /= part.count;
    const long first = part.index * size.m;
    std::unique_ptr<Product>& product = product_of_size_[size];
    if (product == nullptr) product = products_->Make(size);
    product->Enqueue(stream, problem.a->Row(problem.a_row + first), problem.w->Row(problem.w_row),
                     problem.added == nullptr ? nullptr : problem.added->Row(first),
                     problem.d->Row(problem.d_row + first));
  }

  // The result of all products that write to `d`, each its rows.
  void ExpectProducts(const SharedTensor& d) const {
    std::vector<LinearProblem> own;
    for (const LinearProblem& problem : problems_) {
      if (problem.d != d) continue;
      own.push_back(problem);
      own.back().rows = RowsOf(problem);
      own.back().d = nullptr;  // D owns what it expects, so that must not own D
    }
    d->Expect(
        [own](int rank, long row, long column) {
          const auto covers = [row](const LinearProblem& one) {
            return row >= one.d_row && row < one.d_row + one.rows;
          };
          const LinearProblem& product = *std::ranges::find_if(own, covers);
          const long place = row - product.d_row;
          const auto& [a, w, added] = std::tie(product.a, product.w, product.added);
          double sum = added == nullptr ? 0 : added->Expected(rank, place, column);
          for (long i = 0; i < a->shape().columns; ++i)
            sum += a->Expected(rank, product.a_row + place, i) *
                   w->Expected(rank, product.w_row + i, column);
          return sum;
        },
        [a = own.front().a, added = own.front().added, products = products_] {
          const RoundingError of_added = added == nullptr ? RoundingError() : added->error();
          return products->error().And(WorseOf(a->error().AsTerm(), of_added.AsTerm()));
        });
  }

  Machine machine_;
  std::vector<LinearProblem> problems_;
  std::shared_ptr<Products> products_;
  std::map<ProductSize, std::unique_ptr<Product>> product_of_size_;
  std::optional<std::uint64_t> fingerprint_;
};

double ExactSumOfProducts(const std::vector<float>& left, const std::vector<float>& right) {
  double sum = 0;
  for (std::size_t i = 0; i < left.size(); ++i) sum += static_cast<double>(left[i]) * right[i];
  return sum;
}

}  // namespace

std::unique_ptr<Workload> MakeLinear(const Machine& machine, std::vector<LinearProblem> problems) {
  return std::make_unique<LinearWorkload>(machine, std::move(problems));
}

TensorStep ProductStep(const Machine& machine, const SharedTensor& a, const SharedTensor& w,
                       const SharedTensor& d, Transposed transposed, std::uint32_t seed) {
  TensorStep step = StepOn({a, w}, d, seed);
  const TensorShape& left = a->shape();
  const ProductSize size{d->shape().rows, d->shape().columns,
                         transposed == Transposed::kA ? left.rows : left.columns, transposed};
  step.cost.Add({size.m, size.n, size.k});
  const std::shared_ptr<Products> products = MakeProducts(machine);
  step.enqueue = [a, w, d, size, products, of_rows = std::map<long, std::shared_ptr<Product>>()](
                     Stream& stream, long first, long rows) mutable {
    if (size.transposed == Transposed::kA && rows != size.m)
      throw Error("a product with its first matrix transposed is not cut into parts");
    std::shared_ptr<Product>& product = of_rows[rows];
    if (product == nullptr) product = products->Make({rows, size.n, size.k, size.transposed});
    product->Enqueue(stream, a->Row(first), w->Row(0), nullptr, d->Row(first));
  };
  step.ineffective_knob = [products] { return products->IneffectiveKnob(); };
  step.error = [products] { return products->error(); };
  step.expected = [a, w, transposed](HeldRows& held, long row, long column) {
    return ExactSumOfProducts(
        transposed == Transposed::kA ? held.Column(a, row) : held.Row(a, row),
        transposed == Transposed::kW ? held.Row(w, column) : held.Column(w, column));
  };
  return step;
}

Axis SmTargetAxis() {
  return IntegerAxis("sm_target", "SMs that cuBLASLt should use; 0: all", 0, 1024, "0", "0");
}

std::string ExcludedSmTarget(const DeviceInfo& gpu, const Settings& settings) {
  return settings.Integer("sm_target") < gpu.multiprocessors
             ? ""
             : fmt::format("sm_target must be below the GPU's {} SMs", gpu.multiprocessors);
}

std::shared_ptr<Products> MakeProducts(const Machine& machine) {
  if (machine.device.backend() == Backend::kHost)
    return std::make_shared<HostProducts>(machine.device.info().multiprocessors);
  return MakeCublasProducts(machine, LayerElement(machine.device));
}

std::unique_ptr<ProductGroups> MakeProductGroups(const Machine& machine, Stream& stream, long n,
                                                 long k, const std::vector<ProductGroup>& groups) {
  if (machine.device.backend() == Backend::kHost)
    return std::make_unique<HostGroups>(machine.device.info().multiprocessors, n, k, groups);
  return MakeCublasGroups(machine, stream, n, k, groups);
}

std::size_t ProductWorkspaceBytes(const Device& device) {
  return device.backend() == Backend::kHost ? 0 : kProductWorkspaceBytes;
}

Element LayerElement(const Device& device) {
  return device.backend() == Backend::kHost ? Element::kFloat32 : Element::kBfloat16;
}

}  // namespace overlapbench
