// Mlp: training a network of square linear layers with GELUs between them, on cuBLASLt: `steps`
// times forward, backward and an update of the parameters (SGD). The network, its formulas and its
// random data: kernels/mlp_oracle.h. Verified as kernels/mlp_check.h describes.
//
//   gelu:kernel    bias and GELU, and their gradients, are kernels of their own behind each product
//   gelu:epilogue  cuBLASLt fuses them into the products (CUBLASLT_EPILOGUE_GELU_AUX_BIAS and
//                  _DGELU_BGRAD; cuBLAS documentation, "cublasLtEpilogue_t")
//   call:loop      a launch for each kernel
//   call:graph     one launch of a CUDA graph of them
//
// Parameters, activations and gradients are stored in the product's element type; products
// accumulate in float32. A step reads the parameters from one buffer and writes the updated ones to
// another, and an Enqueue begins with the initial ones, so that it can be repeated without end.
// Cost: three products a layer and step, 6·batch·dim² operations; all else is not counted.
//
// MlpLoop, MlpKernel: the plainer forms that others are held against, by call and by GELU.

#include <algorithm>
#include <array>
#include <memory>
#include <string>

#include "kernels/cublaslt.h"
#include "kernels/mlp_check.h"
#include "kernels/mlp_layers.h"
#include "kernels/mlp_oracle.h"
#include "kernels/repeater.h"
#include "workload/data.h"
#include "workload/registry.h"

namespace overlapbench {
namespace {

// What the oracle does in about a second on one core.
constexpr double kMostOracleFlops = 4e9;

struct Rounding {
  std::string_view precision;
  double value;  // the largest relative error of one rounding
};
// Half a unit in the last place of 8, 11 and 24 significant bits; tensor cores read of a float32
// the 11 bits that tf32 has, and cut the others off.
constexpr std::array<Rounding, 4> kRoundings = {
    {{"bf16", 0x1p-8}, {"fp16", 0x1p-11}, {"tf32", 0x1p-10}, {"fp32", 0x1p-24}}};

// The last oracle that was asked for. The runs of one benchmark share it, and most often so does
// the next benchmark.
class OracleShelf {
 public:
  const TrainedMlp& For(const MlpProblem& problem) {
    if (!(problem == problem_)) trained_ = TrainMlp(problem);
    problem_ = problem;
    return trained_;
  }

 private:
  MlpProblem problem_;
  TrainedMlp trained_;
};

MlpProblem ProblemOf(const Settings& settings) {
  return {settings.Integer("dim"), settings.Integer("layers"), settings.Integer("batch"),
          settings.Integer("steps")};
}

// How the network is computed.
struct MlpForm {
  bool fused;
  bool as_graph;
};

class MlpWorkload : public Workload {
 public:
  MlpWorkload(const Machine& machine, const MlpProblem& problem, const Precision& precision,
              const MlpForm& form, std::shared_ptr<OracleShelf> shelf)
      : machine_(machine),
        problem_(problem),
        precision_(precision),
        form_(form),
        shelf_(std::move(shelf)),
        updated_(Allocate(problem.parameter_count())),
        between_(Allocate(problem.steps > 1 ? problem.parameter_count() : 0)),
        initial_(Allocate(problem.parameter_count())),
        gradients_(Allocate(problem.parameter_count())),
        x_(Allocate(problem.layers * problem.row_count())),
        z_(Allocate(problem.layers * problem.row_count())),
        dz_(Allocate((problem.layers + 1) * problem.row_count())),
        scratch_(machine.device.Allocate(BiasScratchBytes(rows()), MemoryKind::kDevice)),
        library_(machine.device),
        hidden_(Product(false, false, CUBLASLT_EPILOGUE_GELU_AUX_BIAS)),
        last_(Product(false, false, CUBLASLT_EPILOGUE_BIAS)),
        hidden_gradient_(Product(false, true, CUBLASLT_EPILOGUE_DGELU_BGRAD)),
        input_gradient_(Product(false, true, CUBLASLT_EPILOGUE_DEFAULT)),
        weight_gradient_(Product(true, false, CUBLASLT_EPILOGUE_DEFAULT)),
        repeater_(machine.device, form.as_graph, [this](Stream& stream) { Train(stream); }) {}

  [[nodiscard]] Cost cost() const override {
    Cost cost;
    cost.flops = problem_.flops();
    return cost;
  }
  // A stream takes so many launches and no more before it makes the next one wait.
  [[nodiscard]] bool enqueue_waits() const override { return !form_.as_graph; }

  void Reset(Stream& stream) override {
    for (const Buffer* buffer : {&updated_, &between_, &gradients_, &x_, &z_, &dz_})
      Poison(stream, buffer->data(), buffer->bytes());
    EnqueueMlpParameters(stream, element(), problem_, initial_.data());
    FillFractions(stream, X(0), problem_.row_count(), element(), kMlpInputSeed);
    FillFractions(stream, DZ(problem_.layers - 1), problem_.row_count(), element(),
                  kMlpGradientSeed);
  }

  void Enqueue(Stream& stream) override { repeater_.Enqueue(stream); }

  Verdict Verify(Stream& stream) override {
    const MlpTensors tensors{Begun(problem_.steps - 1).data(),
                             updated_.data(),
                             gradients_.data(),
                             x_.data(),
                             z_.data(),
                             dz_.data()};
    for (const Buffer* buffer : {&updated_, &gradients_, &x_, &z_, &dz_}) {
      const long count = static_cast<long>(buffer->bytes() / SizeOf(element()));
      const std::string fault = FindUnwritten(machine_.device, stream, buffer->data(), count,
                                              element(), machine_.ranks.timeout());
      if (!fault.empty()) return {1, 0, fault};
    }
    const auto* rounding = std::ranges::find(kRoundings, precision_.name, &Rounding::precision);
    const bool small = problem_.flops() <= kMostOracleFlops;
    return VerifyMlp(stream, problem_, {element(), rounding->value}, tensors,
                     small ? &shelf_->For(problem_) : nullptr, machine_.ranks.timeout());
  }

 private:
  void Train(Stream& stream) {
    for (long step = 0; step < problem_.steps; ++step) {
      Forward(stream, Begun(step));
      Backward(stream, Begun(step));
      EnqueueUpdate(stream, element(), problem_.parameter_count(), Begun(step + 1).data(),
                    Begun(step).data(), gradients_.data(), problem_.rate());
    }
  }

  void Forward(Stream& stream, const Buffer& parameters) {
    for (long l = 0; l < problem_.layers; ++l) {
      const bool last = l == problem_.layers - 1;
      void* weights = At(parameters, WeightsAt(l));
      void* biases = At(parameters, BiasesAt(l));
      const CublasProduct& product = last ? last_ : hidden_;
      void* next = last ? nullptr : X(l + 1);
      if (form_.fused) {
        product.Enqueue(stream, X(l), weights, last ? Z(l) : next, {biases, Z(l)});
      } else {
        product.Enqueue(stream, X(l), weights, Z(l), {});
        EnqueueBiasGelu(stream, element(), rows(), Z(l), biases, next);
      }
    }
  }

  void Backward(Stream& stream, const Buffer& parameters) {
    const long last = problem_.layers - 1;
    SumBiasGradient(stream, last, nullptr);
    for (long l = last; l >= 0; --l) {
      void* weights = At(parameters, WeightsAt(l));
      weight_gradient_.Enqueue(stream, X(l), DZ(l), At(gradients_, WeightsAt(l)), {});
      if (l > 0 && form_.fused) {
        hidden_gradient_.Enqueue(stream, DZ(l), weights, DZ(l - 1),
                                 {At(gradients_, BiasesAt(l - 1)), Z(l - 1)});
      } else {
        input_gradient_.Enqueue(stream, DZ(l), weights, DZ(l - 1), {});
        if (l > 0) SumBiasGradient(stream, l - 1, Z(l - 1));
      }
    }
  }

  // With `z`: first multiplies the gradient by GELU's.
  void SumBiasGradient(Stream& stream, long l, const void* z) {
    EnqueueGeluBackward(stream, element(), rows(), DZ(l), z, At(gradients_, BiasesAt(l)),
                        scratch_.data());
  }

  [[nodiscard]] CublasProduct Product(bool transpose_a, bool transpose_b,
                                      cublasLtEpilogue_t epilogue) const {
    const auto [dim, layers, batch, steps] = problem_;
    const ProductShape shape{transpose_a ? dim : batch, dim, transpose_a ? batch : dim, transpose_a,
                             transpose_b};
    return {library_, precision_, shape, {form_.fused ? epilogue : CUBLASLT_EPILOGUE_DEFAULT, 0}};
  }

  Buffer Allocate(long count) {
    return machine_.device.Allocate(count * SizeOf(element()), MemoryKind::kDevice);
  }
  // The parameters that a step begins with; those of step `steps` are the result.
  [[nodiscard]] const Buffer& Begun(long step) const {
    if (step == 0) return initial_;
    return (problem_.steps - step) % 2 == 0 ? updated_ : between_;
  }
  [[nodiscard]] void* At(const Buffer& buffer, long index) const {
    return static_cast<std::byte*>(buffer.data()) + index * SizeOf(element());
  }
  [[nodiscard]] void* X(long l) const { return At(x_, l * problem_.row_count()); }
  [[nodiscard]] void* Z(long l) const { return At(z_, l * problem_.row_count()); }
  // Of layer −1: the input's gradient.
  [[nodiscard]] void* DZ(long l) const { return At(dz_, (l + 1) * problem_.row_count()); }
  [[nodiscard]] long WeightsAt(long l) const { return l * problem_.dim * problem_.dim; }
  [[nodiscard]] long BiasesAt(long l) const { return problem_.weight_count() + l * problem_.dim; }
  [[nodiscard]] MatrixSize rows() const { return {problem_.batch, problem_.dim}; }
  [[nodiscard]] Element element() const { return precision_.input; }

  Machine machine_;
  MlpProblem problem_;
  const Precision& precision_;
  MlpForm form_;
  std::shared_ptr<OracleShelf> shelf_;
  Buffer updated_;
  Buffer between_;
  Buffer initial_;
  Buffer gradients_;
  Buffer x_;
  Buffer z_;
  Buffer dz_;
  Buffer scratch_;
  CublasLt library_;
  CublasProduct hidden_;
  CublasProduct last_;
  CublasProduct hidden_gradient_;
  CublasProduct input_gradient_;
  CublasProduct weight_gradient_;
  Repeater repeater_;
};

std::string Excluded(const Settings& settings) {
  constexpr long kMultiple = 16;
  for (const auto* axis : {"dim", "batch"}) {
    if (settings.Integer(axis) % kMultiple != 0)
      return std::string(axis) + " must be a multiple of 16";
  }
  // On an H200 with CUDA 13.0: errors of about 1e-5, ten times those of sums in float32.
  const bool fused = settings.Has("gelu") && settings.Text("gelu") == "epilogue";
  if (fused && settings.Text("precision") == "fp32")
    return "cuBLASLt's fused GELU is an approximation that is too coarse for precision:fp32";
  return "";
}

Footprint FootprintOf(const Settings& settings) {
  const MlpProblem problem = ProblemOf(settings);
  const Element element = PrecisionNamed(settings.Text("precision")).input;
  const long parameter_sets = problem.steps > 1 ? 4 : 3;
  const long row_sets = 3 * problem.layers + 1;
  const std::size_t elements =
      parameter_sets * problem.parameter_count() + row_sets * problem.row_count();
  const std::size_t bytes = elements * SizeOf(element);
  return {bytes + BiasScratchBytes({problem.batch, problem.dim}) + CublasLt::kWorkspaceBytes,
          bytes};  // all of it is read to verify it
}

}  // namespace

std::vector<WorkloadSpec> Mlp(Machine& machine) {
  WorkloadSpec mlp;
  mlp.name = "Mlp";
  mlp.side = Side::kCompute;
  mlp.baseline = false;
  mlp.summary = "linear layers and GELUs, forward, backward and updated, on cuBLASLt";
  if (machine.device.backend() != Backend::kCuda) mlp.missing = "exists on the cuda backend only";
  const Axis gelu = ChoiceAxis("gelu", "bias, GELU and their gradients: own kernels, or fused",
                               {"kernel", "epilogue"}, "kernel,epilogue");
  const Axis call = ChoiceAxis("call", "a launch for each, or one for a recorded graph of them",
                               {"loop", "graph"}, "loop,graph");
  const std::vector<Axis> shape = {
      IntegerAxis("dim", "width of the layers, a multiple of 16", 16, 1 << 16, "256"),
      IntegerAxis("layers", "linear layers", 1, 64, "4"),
      IntegerAxis("batch", "rows of the input, a multiple of 16", 16, 1 << 20, "256"),
      IntegerAxis("steps", "times forward, backward and updated", 1, 64, "2"),
      ChoiceAxis("precision", "precision of the products and of what is stored",
                 {"bf16", "fp16", "tf32", "fp32"}, "bf16", "bf16")};
  const auto with = [&shape](std::initializer_list<Axis> more) {
    std::vector<Axis> axes = shape;
    axes.insert(axes.end(), more);
    return axes;
  };
  mlp.excluded = Excluded;
  mlp.footprint = FootprintOf;
  const auto maker = [machine, shelf = std::make_shared<OracleShelf>()](const auto& form_of) {
    return [machine, shelf, form_of](const Settings& settings) {
      return std::make_unique<MlpWorkload>(machine, ProblemOf(settings),
                                           PrecisionNamed(settings.Text("precision")),
                                           form_of(settings), shelf);
    };
  };
  const auto fused = [](const Settings& settings) { return settings.Text("gelu") == "epilogue"; };
  const auto as_graph = [](const Settings& settings) { return settings.Text("call") == "graph"; };

  WorkloadSpec loop = mlp;
  WorkloadSpec kernel = mlp;
  mlp.axes = with({gelu, call});
  mlp.make =
      maker([=](const Settings& settings) { return MlpForm{fused(settings), as_graph(settings)}; });
  loop.name = "MlpLoop";
  loop.summary = "the same by a launch for each kernel";
  loop.axes = with({gelu});
  loop.make = maker([=](const Settings& settings) { return MlpForm{fused(settings), false}; });
  kernel.name = "MlpKernel";
  kernel.summary = "the same with GELUs of their own";
  kernel.axes = with({call});
  kernel.make = maker([=](const Settings& settings) { return MlpForm{false, as_graph(settings)}; });
  return {mlp, loop, kernel};
}

}  // namespace overlapbench
