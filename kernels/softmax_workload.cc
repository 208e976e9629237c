// The softmax variants of softmax.h as workloads, SoftmaxUnfused, SoftmaxBlockPerRow, SoftmaxFused
// and SoftmaxTwoPass, on a matrix of `matrix_bytes` in rows of `columns` elements; and
// SoftmaxCudnn, the library's softmax, where cuDNN is installed.
//
// Cost: every time a variant reads or writes the whole matrix. SoftmaxFused counts three passes
// instead of two for rows that this device can only read twice. What cuDNN's kernels move is not
// known; one read and one write are counted, the least there can be.
//
// Inputs are multiples of 1/128 in (−1, 1). Verification checks that every element of the result
// was written, and compares the first row, the last and some between with the oracle.

#include <algorithm>
#include <array>
#include <functional>
#include <memory>
#include <sstream>
#include <utility>
#include <vector>

#include "kernels/cudnn_softmax.h"
#include "kernels/softmax.h"
#include "kernels/softmax_oracle.h"
#include "workload/data.h"
#include "workload/registry.h"

namespace overlapbench {
namespace {

constexpr std::uint32_t kSeed = 1;
constexpr double kRange = 2;  // of the inputs

struct Variant {
  std::string_view name;
  SoftmaxVariant variant;
  std::string_view summary;
};
constexpr std::array<Variant, 4> kVariants = {{
    {"SoftmaxUnfused", SoftmaxVariant::kUnfused, "softmax of rows as five launches"},
    {"SoftmaxBlockPerRow", SoftmaxVariant::kBlockPerRow,
     "softmax of rows, one block per row, which reads it three times"},
    {"SoftmaxFused", SoftmaxVariant::kFused, "softmax of rows that reads memory once"},
    {"SoftmaxTwoPass", SoftmaxVariant::kTwoPass, "online softmax of rows, which reads twice"},
}};

// A row-major matrix, as the axes describe it.
struct Shape {
  long rows;
  long columns;
  Element element;
  [[nodiscard]] long count() const { return rows * columns; }
  [[nodiscard]] std::size_t row_bytes() const { return columns * SizeOf(element); }
  [[nodiscard]] std::size_t bytes() const { return rows * row_bytes(); }
  [[nodiscard]] SoftmaxProblem Problem(const void* input, void* output, void* workspace) const {
    return {input, output, workspace, rows, columns, element};
  }
};

Shape ShapeOf(const Settings& settings) {
  Shape shape{0, settings.Integer("columns"), ElementNamed(settings.Text("precision"))};
  shape.rows = settings.Integer("matrix_bytes") / static_cast<long>(shape.row_bytes());
  return shape;
}

// How a softmax is computed.
struct Method {
  SoftmaxNeeds needs;
  double tolerance = 0;
  std::function<void(Stream&, const SoftmaxProblem&)> launch;
};

class SoftmaxWorkload : public Workload {
 public:
  SoftmaxWorkload(const Machine& machine, const Shape& shape, Method method)
      : machine_(machine),
        shape_(shape),
        method_(std::move(method)),
        input_(machine.device.Allocate(shape.bytes(), MemoryKind::kDevice)),
        output_(machine.device.Allocate(shape.bytes(), MemoryKind::kDevice)),
        zeros_(std::min(method_.needs.workspace_bytes, kSoftmaxWorkspaceBytes)) {
    if (!zeros_.empty())
      workspace_ = machine.device.Allocate(method_.needs.workspace_bytes, MemoryKind::kDevice);
  }

  [[nodiscard]] Cost cost() const override {
    return {.moved_bytes = method_.needs.passes * static_cast<double>(shape_.bytes())};
  }

  void Reset(Stream& stream) override {
    FillFractions(stream, input_.data(), shape_.count(), shape_.element, kSeed);
    Poison(stream, output_.data(), output_.bytes());
    if (!zeros_.empty()) stream.Copy(workspace_.data(), zeros_.data(), zeros_.size());
  }

  void Enqueue(Stream& stream) override {
    method_.launch(stream, shape_.Problem(input_.data(), output_.data(), workspace_.data()));
  }

  Verdict Verify(Stream& stream) override {
    Verdict verdict;
    verdict.tolerance = method_.tolerance;
    verdict.fault = FindUnwritten(machine_.device, stream, output_.data(), shape_.count(),
                                  shape_.element, machine_.timeout);
    for (const long row : SampledRows()) {
      if (!verdict.fault.empty()) break;
      CheckRow(stream, row, verdict);
    }
    return verdict;
  }

 private:
  // The kernels handle all rows alike, so a sample is enough.
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
    stream.Synchronize(machine_.timeout, "verifying a softmax");
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
  Shape shape_;
  Method method_;
  Buffer input_;
  Buffer output_;
  Buffer workspace_;
  std::vector<std::byte> zeros_;  // which kFused needs in its workspace, and kUnfused overwrites
};

Method MethodOf(const Device& device, SoftmaxVariant variant, const Shape& shape) {
  const auto regime = FusedRegimeOn(device, shape.columns, shape.element);
  return {SoftmaxNeedsOf(variant, shape.Problem(nullptr, nullptr, nullptr), regime),
          SoftmaxTolerance(variant, shape.element, kRange),
          [variant](Stream& stream, const SoftmaxProblem& problem) {
            LaunchSoftmax(stream, variant, problem);
          }};
}

// On an H200, cuDNN 9.19's 16-bit results for rows of 1,024 columns and more are those of
// exponentials that were summed, then rounded to 16 bits, then divided by the sum.
Method CudnnMethod(const std::shared_ptr<const Cudnn>& library, const Shape& shape) {
  const auto softmax =
      std::make_shared<CudnnSoftmax>(library, shape.rows, shape.columns, shape.element);
  return {{2, 0},
          SoftmaxTolerance(SoftmaxRounding::kExponentials, shape.element, kRange),
          [softmax](Stream& stream, const SoftmaxProblem& problem) {
            softmax->Enqueue(stream, problem.input, problem.output);
          }};
}

// Everything but `make`, with the footprint of a softmax without a workspace.
WorkloadSpec SpecOf(const Machine& machine, std::string_view name, std::string_view summary) {
  const bool host = machine.device.backend() == Backend::kHost;
  WorkloadSpec spec;
  spec.name = name;
  spec.baseline = false;
  spec.summary = summary;
  spec.axes = {IntegerAxis("columns", "elements of a row", 32, 262144, "1024,32768"),
               BytesAxis("matrix_bytes", "size of the matrix; its rows follow from it",
                         host ? "4M" : "512M"),
               ChoiceAxis("precision", "type of the matrix", {"fp32", "fp16", "bf16"}, "bf16")};
  spec.excluded = [](const Settings& settings) {
    return ShapeOf(settings).rows > 0 ? "" : "matrix_bytes must hold at least one row of columns";
  };
  spec.footprint = [](const Settings& settings) {
    return Footprint{2 * ShapeOf(settings).bytes(), 0};
  };
  return spec;
}

WorkloadSpec VariantSpec(const Machine& machine, const Variant& variant) {
  WorkloadSpec spec = SpecOf(machine, variant.name, variant.summary);
  const auto method = [&device = machine.device, kind = variant.variant](const Shape& shape) {
    return MethodOf(device, kind, shape);
  };
  spec.footprint = [method](const Settings& settings) {
    const Shape shape = ShapeOf(settings);
    return Footprint{2 * shape.bytes() + method(shape).needs.workspace_bytes, 0};
  };
  spec.make = [machine, method](const Settings& settings) {
    const Shape shape = ShapeOf(settings);
    return std::make_unique<SoftmaxWorkload>(machine, shape, method(shape));
  };
  return spec;
}

WorkloadSpec CudnnSpec(const Machine& machine) {
  WorkloadSpec spec = SpecOf(machine, "SoftmaxCudnn", "softmax of rows by cuDNN");
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
    spec.make = [machine, library = LoadCudnn()](const Settings& settings) {
      const Shape shape = ShapeOf(settings);
      return std::make_unique<SoftmaxWorkload>(machine, shape, CudnnMethod(library, shape));
    };
  } catch (const Error& error) {
    spec.missing = error.what();
  }
  return spec;
}

}  // namespace

std::vector<WorkloadSpec> Softmax(Machine& machine) {
  std::vector<WorkloadSpec> specs;
  for (const auto& variant : kVariants) specs.push_back(VariantSpec(machine, variant));
  specs.push_back(CudnnSpec(machine));
  return specs;
}

}  // namespace overlapbench
