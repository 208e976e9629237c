#include "workload/tensor_step.h"

#include <fmt/core.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include "ranks/ranks.h"
#include "workload/sample_check.h"

namespace overlapbench {
namespace {

class TensorStepWorkload : public Workload {
 public:
  TensorStepWorkload(const Machine& machine, TensorStep step)
      : machine_(machine), step_(std::move(step)) {}

  void Connect() override {
    for (const SharedTensor& input : step_.inputs) input->Connect();
    step_.output->Connect();
  }
  [[nodiscard]] Cost cost() const override { return step_.cost; }

  void Reset(Stream& stream) override {
    std::uint32_t seed = step_.seed;
    for (const SharedTensor& input : step_.inputs) {
      input->Fill(stream, machine_.ranks.rank(), seed);
      seed += TensorStep::kSeedsApart;
    }
    step_.output->PoisonRows(stream, 0, rows());
    if (step_.oracle) step_.output->Expect(step_.oracle, step_.error);
  }

  void Enqueue(Stream& stream) override { step_.enqueue(stream, 0, rows()); }
  void EnqueuePart(Stream& stream, const Part& part) override {
    if (rows() % part.count != 0)
      throw Error(fmt::format("{} rows cannot be cut into {} parts", rows(), part.count));
    const long count = rows() / part.count;
    step_.enqueue(stream, part.index * count, count);
  }

  Verdict Verify(Stream& stream) override {
    const std::uint64_t result = step_.output->Fingerprint(machine_, stream);
    fingerprint_ = result;
    if (step_.oracle) return step_.output->Verify(machine_, stream);
    for (const Checked& before : checked_)
      if (Now(stream, result, before.read) == before.bits) return before.verdict;
    HeldRows held(stream, machine_.timeout);
    const Verdict verdict =
        CheckSample(machine_.device, stream, step_.output->View(),
                    [&](long row, long column) { return step_.expected(held, row, column); },
                    step_.error(), machine_.timeout, {.threads = CheckingThreads(machine_.ranks)});
    const std::vector<SharedTensor> read = held.tensors();
    checked_.push_back({read, Now(stream, result, read), verdict});
    return verdict;
  }
  [[nodiscard]] std::optional<std::uint64_t> Fingerprint() const override { return fingerprint_; }
  [[nodiscard]] std::string IneffectiveKnob() override {
    return step_.ineffective_knob ? step_.ineffective_knob() : "";
  }

 private:
  // A result that was compared.
  struct Checked {
    std::vector<SharedTensor> read;   // the inputs that were read
    std::vector<std::uint64_t> bits;  // fingerprints of the result and of `read`
    Verdict verdict;
  };

  [[nodiscard]] long rows() const { return step_.output->shape().rows; }
  [[nodiscard]] std::vector<std::uint64_t> Now(Stream& stream, std::uint64_t result,
                                               const std::vector<SharedTensor>& read) const {
    std::vector<std::uint64_t> bits = {result};
    for (const SharedTensor& tensor : read) bits.push_back(tensor->Fingerprint(machine_, stream));
    return bits;
  }

  Machine machine_;
  TensorStep step_;
  std::optional<std::uint64_t> fingerprint_;
  std::vector<Checked> checked_;
};

}  // namespace

HeldRows::Held& HeldRows::Of(const SharedTensor& tensor) {
  const auto find = [&]() -> Held* {
    const auto end = held_.begin() + static_cast<long>(count_.load(std::memory_order_acquire));
    const auto held =
        std::find_if(held_.begin(), end, [&](const Held& one) { return one.tensor == tensor; });
    return held == end ? nullptr : &*held;
  };
  if (Held* const held = find()) return *held;
  const std::scoped_lock lock(reading_);
  if (Held* const held = find()) return *held;
  const std::size_t count = count_;
  if (count == kMostTensors) throw Error("a step's result depends on too many tensors");
  Held& held = held_.at(count);
  held.tensor = tensor;
  held.rows.resize(tensor->shape().rows);
  held.has_row = std::make_unique<std::atomic<bool>[]>(tensor->shape().rows);
  count_.store(count + 1, std::memory_order_release);
  return held;
}

const std::vector<float>& HeldRows::Row(const SharedTensor& tensor, long row) {
  constexpr long kAtATime = 256;
  Held& held = Of(tensor);
  if (held.has_row[row].load(std::memory_order_acquire)) return held.rows[row];
  const std::scoped_lock lock(reading_);
  if (!held.has_row[row]) {
    const bool is_next = row > 0 && held.has_row[row - 1];
    const long left = tensor->shape().stored_rows() - row % tensor->shape().stored_rows();
    ReadRows(held, row, is_next ? std::min(kAtATime, left) : 1);
  }
  return held.rows[row];
}

// Rows that other threads may be using are left unchanged.
void HeldRows::ReadRows(Held& held, long first, long count) const {
  const TensorShape& shape = held.tensor->shape();
  const std::vector<std::byte> bytes =
      Read(held.tensor->Row(first), count * shape.columns * SizeOf(shape.element));
  for (long row = 0; row < count; ++row) {
    if (held.has_row[first + row]) continue;
    std::vector<float>& values = held.rows[first + row];
    values.resize(shape.columns);
    for (long i = 0; i < shape.columns; ++i)
      values[i] = static_cast<float>(Load(bytes.data(), row * shape.columns + i, shape.element));
    held.has_row[first + row].store(true, std::memory_order_release);
  }
}

std::vector<float> HeldRows::Column(const SharedTensor& tensor, long column) {
  const TensorShape& shape = tensor->shape();
  Held& held = Of(tensor);
  if (!held.has_whole.load(std::memory_order_acquire)) {
    const std::scoped_lock lock(reading_);
    if (!held.has_whole) held.whole = Read(tensor->Row(0), shape.bytes());
    held.has_whole.store(true, std::memory_order_release);
  }
  std::vector<float> values(shape.rows);
  for (long row = 0; row < shape.rows; ++row)
    values[row] =
        static_cast<float>(Load(held.whole.data(), row * shape.columns + column, shape.element));
  return values;
}

std::vector<SharedTensor> HeldRows::tensors() const {
  std::vector<SharedTensor> all;
  for (std::size_t i = 0; i < count_; ++i) all.push_back(held_.at(i).tensor);
  return all;
}

std::vector<std::byte> HeldRows::Read(const void* data, std::size_t bytes) const {
  std::vector<std::byte> held(bytes);
  stream_.Copy(held.data(), data, bytes);
  stream_.Synchronize(timeout_, "reading what a tensor holds");
  return held;
}

TensorStep StepOn(std::vector<SharedTensor> inputs, SharedTensor output, std::uint32_t seed) {
  const auto bytes_of = [](const SharedTensor& tensor) {
    return static_cast<double>(tensor->shape().bytes());
  };
  TensorStep made{.inputs = std::move(inputs), .seed = seed, .output = std::move(output)};
  made.cost.moved_bytes = bytes_of(made.output);
  long terms = 1;
  for (const SharedTensor& input : made.inputs) {
    made.cost.moved_bytes += bytes_of(input);
    terms = std::max(terms, input->shape().columns);
  }
  made.error = [error = ErrorOfSum(terms).Stored(made.output->shape().element)] { return error; };
  return made;
}

TensorStep CopyStep(const SharedTensor& from, const SharedTensor& to, std::uint32_t seed) {
  TensorStep step = StepOn({from}, to, seed);
  step.error = [] { return RoundingError(); };
  step.enqueue = [from, to](Stream& stream, long first, long rows) {
    stream.Copy(to->Row(first), from->Row(first),
                rows * to->shape().columns * SizeOf(to->shape().element));
  };
  step.expected = [from](HeldRows& held, long row, long column) {
    return held.Row(from, row)[column];
  };
  return step;
}

std::unique_ptr<Workload> MakeTensorStep(const Machine& machine, TensorStep step) {
  return std::make_unique<TensorStepWorkload>(machine, std::move(step));
}

}  // namespace overlapbench
