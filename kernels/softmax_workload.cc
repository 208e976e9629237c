// The softmaxes of softmax.h as workloads: SoftmaxUnfused, SoftmaxBlockPerRow, SoftmaxFused and
// SoftmaxTwoPass, on a matrix of `matrix_bytes` in rows of `columns` elements; and SoftmaxCudnn,
// the library's, where cuDNN is present.
//
// Cost: what a variant moves, reads and writes of the whole matrix; at least one of each, which is
// what is counted for cuDNN, whose kernels say nothing of it. Inputs
// are multiples of 1/128 in (−1, 1). Every element of the result must have been written, and the
// first row, the last and some between must match the oracle.

#include <algorithm>
#include <array>
#include <sstream>
#include <vector>

#include "kernels/cudnn_softmax.h"
#include "kernels/softmax.h"
#include "kernels/softmax_oracle.h"
#include "workload/data.h"
#include "workload/registry.h"

namespace overlapbench {
namespace {

constexpr std::uint32_t kSeed = 1;

struct Variant {
  std::string_view name;
  SoftmaxVariant variant;
  std::string_view summary;
  int passes;  // over the matrix, reading or writing
};
constexpr std::array<Variant, 4> kVariants = {{
    // Maximum and sum read; subtract, exponential and divide read and write.
    {"SoftmaxUnfused", SoftmaxVariant::kUnfused, "softmax of rows as five launches", 8},
    {"SoftmaxBlockPerRow", SoftmaxVariant::kBlockPerRow,
     "softmax of rows, a block a row that it reads three times", 4},
    {"SoftmaxFused", SoftmaxVariant::kFused, "softmax of rows that reads memory once", 2},
    {"SoftmaxTwoPass", SoftmaxVariant::kTwoPass, "online softmax of rows, which reads twice", 3},
}};

// Has no workspace of ours, as BlockPerRow.
constexpr Variant kCudnn = {"SoftmaxCudnn", SoftmaxVariant::kBlockPerRow,
                            "softmax of rows by cuDNN", 2};

// A row-major matrix, as the axes describe it.
struct Shape {
  long rows;
  long columns;
  Element element;
  [[nodiscard]] long count() const { return rows * columns; }
  [[nodiscard]] std::size_t row_bytes() const { return columns * SizeOf(element); }
  [[nodiscard]] std::size_t bytes() const { return rows * row_bytes(); }
};

Shape ShapeOf(const Settings& settings) {
  Shape shape{0, settings.Integer("columns"), ElementNamed(settings.Text("precision"))};
  shape.rows = settings.Integer("matrix_bytes") / static_cast<long>(shape.row_bytes());
  return shape;
}

class SoftmaxWorkload : public Workload {
 public:
  SoftmaxWorkload(Machine& machine, const Variant& variant, const Shape& shape)
      : machine_(machine),
        variant_(variant),
        shape_(shape),
        input_(machine.device.Allocate(shape.bytes(), MemoryKind::kDevice)),
        output_(machine.device.Allocate(shape.bytes(), MemoryKind::kDevice)),
        zeros_(variant.variant == SoftmaxVariant::kFused ? kSoftmaxWorkspaceBytes : 0) {
    const std::size_t workspace_bytes =
        SoftmaxWorkspaceBytes(variant.variant, shape.rows, shape.columns, shape.element);
    if (workspace_bytes > 0)
      workspace_ = machine.device.Allocate(workspace_bytes, MemoryKind::kDevice);
  }

  [[nodiscard]] Cost cost() const override {
    Cost cost;
    cost.moved_bytes = variant_.passes * static_cast<double>(shape_.bytes());
    return cost;
  }

  void Reset(Stream& stream) override {
    FillFractions(stream, input_.data(), shape_.count(), shape_.element, kSeed);
    Poison(stream, output_.data(), output_.bytes());
    if (!zeros_.empty()) stream.Copy(workspace_.data(), zeros_.data(), zeros_.size());
  }

  void Enqueue(Stream& stream) override {
    LaunchSoftmax(stream, variant_.variant,
                  {input_.data(), output_.data(), workspace_.data(), shape_.rows, shape_.columns,
                   shape_.element});
  }

  Verdict Verify(Stream& stream) override {
    Verdict verdict;
    verdict.tolerance = tolerance();
    verdict.fault = FindUnwritten(machine_.device, stream, output_.data(), shape_.count(),
                                  shape_.element, machine_.ranks.timeout());
    for (const long row : SampledRows()) {
      if (!verdict.fault.empty()) break;
      CheckRow(stream, row, verdict);
    }
    return verdict;
  }

 protected:
  static constexpr double kRange = 2;  // of the inputs

  [[nodiscard]] virtual double tolerance() const {
    return SoftmaxTolerance(variant_.variant, shape_.element, kRange);
  }
  [[nodiscard]] const Shape& shape() const { return shape_; }
  [[nodiscard]] const void* input() const { return input_.data(); }
  [[nodiscard]] void* output() const { return output_.data(); }

 private:
  // Rows that are all alike to the kernels need no more.
  [[nodiscard]] std::vector<long> SampledRows() const {
    constexpr long kSamples = 16;
    constexpr std::uint32_t kSampleSeed = 99;
    std::vector<long> rows = {0, shape_.rows - 1};
    for (long i = 0; i < kSamples; ++i) rows.push_back(Random(kSampleSeed, i) % shape_.rows);
    return rows;
  }

  void CheckRow(Stream& stream, long row, Verdict& verdict) {
    std::vector<std::byte> input(shape_.row_bytes());
    for (long i = 0; i < shape_.columns; ++i) {
      Store(input.data(), i, shape_.element, RandomFraction(kSeed, row * shape_.columns + i));
    }
    std::vector<std::byte> output(shape_.row_bytes());
    stream.Copy(output.data(),
                static_cast<const std::byte*>(output_.data()) + row * shape_.row_bytes(),
                output.size());
    stream.Synchronize(machine_.ranks.timeout(), "verifying " + std::string(variant_.name));
    long column = 0;
    const double error = SoftmaxError(SoftmaxOracle(input.data(), shape_.columns, shape_.element),
                                      output.data(), shape_.element, &column);
    verdict.max_rel_err = std::max(verdict.max_rel_err, error);
    if (error <= verdict.tolerance) return;
    std::ostringstream text;
    text << "row " << row << ", column " << column << ": relative error " << error << " is above "
         << verdict.tolerance;
    verdict.fault = text.str();
  }

  Machine machine_;
  const Variant& variant_;
  Shape shape_;
  Buffer input_;
  Buffer output_;
  Buffer workspace_;
  std::vector<std::byte> zeros_;  // what kFused finds in its workspace
};

class CudnnSoftmaxWorkload : public SoftmaxWorkload {
 public:
  CudnnSoftmaxWorkload(Machine& machine, const Shape& shape,
                       const std::shared_ptr<const Cudnn>& library)
      : SoftmaxWorkload(machine, kCudnn, shape),
        softmax_(library, shape.rows, shape.columns, shape.element) {}

  void Enqueue(Stream& stream) override { softmax_.Enqueue(stream, input(), output()); }

 protected:
  // cuDNN 9.19's 16-bit results, of rows of 1,024 columns and more on an H200, are those of
  // exponentials that are rounded once they are summed, and are then divided by the sum.
  [[nodiscard]] double tolerance() const override {
    return SoftmaxTolerance(SoftmaxRounding::kExponentials, shape().element, kRange);
  }

 private:
  CudnnSoftmax softmax_;
};

Footprint FootprintOf(const Variant& variant, const Settings& settings) {
  const Shape shape = ShapeOf(settings);
  return {2 * shape.bytes() +
              SoftmaxWorkspaceBytes(variant.variant, shape.rows, shape.columns, shape.element),
          0};
}

WorkloadSpec SpecOf(Machine& machine, const Variant& variant) {
  const bool host = machine.device.backend() == Backend::kHost;
  WorkloadSpec spec;
  spec.name = variant.name;
  spec.side = Side::kCompute;
  spec.baseline = false;
  spec.summary = variant.summary;
  spec.axes = {IntegerAxis("columns", "elements of a row", 32, 262144, "1024,32768"),
               BytesAxis("matrix_bytes", "size of the matrix; its rows follow from it",
                         host ? "4M" : "512M"),
               ChoiceAxis("precision", "type of the matrix", {"fp32", "fp16", "bf16"}, "bf16")};
  spec.excluded = [](const Settings& settings) {
    return ShapeOf(settings).rows > 0 ? "" : "matrix_bytes holds no row of so many columns";
  };
  spec.footprint = [&variant](const Settings& settings) { return FootprintOf(variant, settings); };
  spec.make = [machine, &variant](const Settings& settings) mutable {
    return std::make_unique<SoftmaxWorkload>(machine, variant, ShapeOf(settings));
  };
  return spec;
}

WorkloadSpec CudnnSpec(Machine& machine) {
  WorkloadSpec spec = SpecOf(machine, kCudnn);
  spec.excluded = [of_any = spec.excluded](const Settings& settings) -> std::string {
    if (ShapeOf(settings).count() > CudnnSoftmax::kMostElements)
      return "cuDNN's tensors have fewer than 2^31 elements";
    return of_any(settings);
  };
  if (machine.device.backend() == Backend::kHost) {
    spec.missing = "exists on the cuda backend only";
    return spec;
  }
  try {
    spec.make = [machine, library = LoadCudnn()](const Settings& settings) mutable {
      return std::make_unique<CudnnSoftmaxWorkload>(machine, ShapeOf(settings), library);
    };
  } catch (const Error& error) {
    spec.missing = error.what();
  }
  return spec;
}

}  // namespace

std::vector<WorkloadSpec> Softmax(Machine& machine) {
  std::vector<WorkloadSpec> specs;
  for (const auto& variant : kVariants) specs.push_back(SpecOf(machine, variant));
  specs.push_back(CudnnSpec(machine));
  return specs;
}

}  // namespace overlapbench
