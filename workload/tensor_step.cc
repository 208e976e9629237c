#include "workload/tensor_step.h"

#include <fmt/core.h>

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
  }

  void Enqueue(Stream& stream) override { step_.enqueue(stream, 0, rows()); }
  void EnqueuePart(Stream& stream, const Part& part) override {
    if (rows() % part.count != 0)
      throw Error(fmt::format("{} rows cannot be cut into {} parts", rows(), part.count));
    const long count = rows() / part.count;
    step_.enqueue(stream, part.index * count, count);
  }

  Verdict Verify(Stream& stream) override {
    HeldRows held(stream, machine_.timeout);
    fingerprint_ = step_.output->Fingerprint(machine_, stream);
    return CheckSample(
        machine_.device, stream, step_.output->View(),
        [&](long row, long column) { return step_.expected(held, row, column); }, step_.tolerance,
        machine_.timeout);
  }
  [[nodiscard]] std::optional<std::uint64_t> Fingerprint() const override { return fingerprint_; }

 private:
  [[nodiscard]] long rows() const { return step_.output->shape().rows; }

  Machine machine_;
  TensorStep step_;
  std::optional<std::uint64_t> fingerprint_;
};

}  // namespace

const std::vector<float>& HeldRows::Row(const SharedTensor& tensor, long row) {
  std::vector<float>& values = rows_[tensor.get()][row];
  if (!values.empty()) return values;
  const TensorShape& shape = tensor->shape();
  const std::vector<std::byte> bytes =
      Read(tensor->Row(row), shape.columns * SizeOf(shape.element));
  for (long i = 0; i < shape.columns; ++i)
    values.push_back(static_cast<float>(Load(bytes.data(), i, shape.element)));
  return values;
}

std::vector<float> HeldRows::Column(const SharedTensor& tensor, long column) {
  const TensorShape& shape = tensor->shape();
  std::vector<std::byte>& whole = whole_[tensor.get()];
  if (whole.empty()) whole = Read(tensor->Row(0), shape.bytes());
  std::vector<float> values(shape.rows);
  for (long row = 0; row < shape.rows; ++row)
    values[row] =
        static_cast<float>(Load(whole.data(), row * shape.columns + column, shape.element));
  return values;
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
  made.tolerance = RoundingOf(made.output->shape().element);
  made.cost.moved_bytes = bytes_of(made.output);
  for (const SharedTensor& input : made.inputs) made.cost.moved_bytes += bytes_of(input);
  return made;
}

TensorStep CopyStep(const SharedTensor& from, const SharedTensor& to, std::uint32_t seed) {
  TensorStep step = StepOn({from}, to, seed);
  step.tolerance = 0;
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
