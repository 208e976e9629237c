// Mlp: trains a network of square linear layers with GELUs between them, on cuBLASLt: `steps` times
// forward, backward and an update of the parameters (SGD). kernels/mlp.h describes the network and
// its random data, kernels/mlp_oracle.h how a result is verified.
//
//   gelu:kernel    Bias and GELU, and their gradients, are separate kernels after each product.
//   gelu:epilogue  cuBLASLt fuses them into the products (CUBLASLT_EPILOGUE_GELU_AUX_BIAS and
//                  _DGELU_BGRAD; cuBLAS documentation, "cublasLtEpilogue_t").
//   call:loop      Every kernel is a launch of its own.
//   call:graph     All kernels are one launch of a CUDA graph.
//
// Parameters, activations and gradients are stored in the product's element type; products
// accumulate in float32. A step reads the parameters from one buffer and writes the updated ones to
// another. An Enqueue begins with the initial parameters, so it can be repeated any number of
// times. Cost: three products per layer and step, 6·batch·dim² operations; nothing else is counted.

#include <algorithm>
#include <array>
#include <memory>
#include <string>

#include "kernels/cublaslt.h"
#include "kernels/mlp_oracle.h"
#include "workload/data.h"
#include "workload/registry.h"

namespace overlapbench {
namespace {

// The oracle takes about a second on one core for this.
constexpr double kMostOracleFlops = 4e9;

struct Rounding {
  std::string_view precision;
  double value;  // the largest relative error of one rounding
};
// Half a unit in the last place of 8, 11 and 24 significant bits. For tf32, tensor cores read 11
// significant bits of a float32 and truncate the rest.
constexpr std::array<Rounding, 4> kRoundings = {
    {{"bf16", 0x1p-8}, {"fp16", 0x1p-11}, {"tf32", 0x1p-10}, {"fp32", 0x1p-24}}};

bool IsFused(const Settings& settings) { return settings.Text("gelu") == "epilogue"; }

// Caches the last oracle. The runs of one benchmark share it, and usually so does the next
// benchmark.
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

class MlpWorkload : public Workload {
 public:
  MlpWorkload(const Machine& machine, const Settings& settings, std::shared_ptr<OracleShelf> shelf)
      : machine_(machine),
        problem_(ProblemOf(settings)),
        precision_(PrecisionNamed(settings.Text("precision"))),
        fused_(IsFused(settings)),
        as_graph_(settings.Text("call") == "graph"),
        shelf_(std::move(shelf)),
        updated_(Allocate(problem_.parameter_count())),
        between_(Allocate(problem_.steps > 1 ? problem_.parameter_count() : 0)),
        initial_(Allocate(problem_.parameter_count())),
        gradients_(Allocate(problem_.parameter_count())),
        x_(Allocate(problem_.layers * problem_.row_count())),
        z_(Allocate(problem_.layers * problem_.row_count())),
        dz_(Allocate((problem_.layers + 1) * problem_.row_count())),
        scratch_(machine.device.Allocate(BiasScratchBytes(rows()), MemoryKind::kDevice)),
        library_(machine.device),
        hidden_(Product(false, false, CUBLASLT_EPILOGUE_GELU_AUX_BIAS)),
        last_(Product(false, false, CUBLASLT_EPILOGUE_BIAS)),
        hidden_gradient_(Product(false, true, CUBLASLT_EPILOGUE_DGELU_BGRAD)),
        input_gradient_(Product(false, true, CUBLASLT_EPILOGUE_DEFAULT)),
        weight_gradient_(Product(true, false, CUBLASLT_EPILOGUE_DEFAULT)),
        graph_(as_graph_ ? machine.device.Record([this](Stream& stream) { Train(stream); })
                         : nullptr) {}

  [[nodiscard]] Cost cost() const override {
    Cost cost;
    cost.Add({problem_.batch, problem_.dim, problem_.dim}, problem_.products());
    return cost;
  }
  // A stream's queue of launches is finite: once it is full, the next launch waits.
  [[nodiscard]] bool enqueue_waits() const override { return !as_graph_; }

  void Reset(Stream& stream) override {
    for (const Buffer* buffer : {&updated_, &between_, &gradients_, &x_, &z_, &dz_})
      Poison(stream, buffer->data(), buffer->bytes());
    EnqueueMlpParameters(stream, element(), problem_, initial_.data());
    FillFractions(stream, X(0), problem_.row_count(), element(), kMlpInputSeed);
    FillFractions(stream, DZ(problem_.layers - 1), problem_.row_count(), element(),
                  kMlpGradientSeed);
  }

  void Enqueue(Stream& stream) override {
    if (as_graph_)
      graph_->Launch(stream);
    else
      Train(stream);
  }

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
                                              element(), machine_.timeout);
      if (!fault.empty()) return {1, 0, fault};
    }
    const auto* rounding = std::ranges::find(kRoundings, precision_.name, &Rounding::precision);
    const bool small = problem_.flops() <= kMostOracleFlops;
    return VerifyMlp(stream, problem_, {element(), rounding->value}, tensors,
                     small ? &shelf_->For(problem_) : nullptr, machine_.timeout);
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
      void* weights = At(parameters, problem_.weights_at(l));
      void* biases = At(parameters, problem_.biases_at(l));
      const CublasProduct& product = last ? last_ : hidden_;
      void* next = last ? nullptr : X(l + 1);
      if (fused_) {
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
      void* weights = At(parameters, problem_.weights_at(l));
      weight_gradient_.Enqueue(stream, X(l), DZ(l), At(gradients_, problem_.weights_at(l)), {});
      if (l > 0 && fused_) {
        hidden_gradient_.Enqueue(stream, DZ(l), weights, DZ(l - 1),
                                 {At(gradients_, problem_.biases_at(l - 1)), Z(l - 1)});
      } else {
        input_gradient_.Enqueue(stream, DZ(l), weights, DZ(l - 1), {});
        if (l > 0) SumBiasGradient(stream, l - 1, Z(l - 1));
      }
    }
  }

  // With `z`: first multiplies the gradient by GELU's.
  void SumBiasGradient(Stream& stream, long l, const void* z) {
    EnqueueGeluBackward(stream, element(), rows(), DZ(l), z, At(gradients_, problem_.biases_at(l)),
                        scratch_.data());
  }

  [[nodiscard]] CublasProduct Product(bool transpose_a, bool transpose_b,
                                      cublasLtEpilogue_t epilogue) const {
    const auto [dim, layers, batch, steps] = problem_;
    const ProductShape shape{transpose_a ? dim : batch, dim, transpose_a ? batch : dim, transpose_a,
                             transpose_b};
    return {library_, precision_, shape, {fused_ ? epilogue : CUBLASLT_EPILOGUE_DEFAULT, 0}};
  }

  Buffer Allocate(long count) {
    return machine_.device.Allocate(count * SizeOf(element()), MemoryKind::kDevice);
  }
  // The parameters that a step begins with. Those of step `steps` are the result.
  [[nodiscard]] const Buffer& Begun(long step) const {
    if (step == 0) return initial_;
    return (problem_.steps - step) % 2 == 0 ? updated_ : between_;
  }
  [[nodiscard]] void* At(const Buffer& buffer, long index) const {
    return static_cast<std::byte*>(buffer.data()) + index * SizeOf(element());
  }
  [[nodiscard]] void* X(long l) const { return At(x_, l * problem_.row_count()); }
  [[nodiscard]] void* Z(long l) const { return At(z_, l * problem_.row_count()); }
  // For layer −1: the input's gradient.
  [[nodiscard]] void* DZ(long l) const { return At(dz_, (l + 1) * problem_.row_count()); }
  [[nodiscard]] MatrixSize rows() const { return {problem_.batch, problem_.dim}; }
  [[nodiscard]] Element element() const { return precision_.input; }

  Machine machine_;
  MlpProblem problem_;
  const Precision& precision_;
  bool fused_;
  bool as_graph_;
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
  std::unique_ptr<Graph> graph_;  // of Train; nullptr for a loop of launches
};

std::string Excluded(const Settings& settings) {
  constexpr long kMultiple = 16;
  for (const auto* axis : {"dim", "batch"}) {
    if (settings.Integer(axis) % kMultiple != 0)
      return std::string(axis) + " must be a multiple of 16";
  }
  // On an H200 with CUDA 13.0: errors of about 1e-5, ten times those of sums in float32.
  if (IsFused(settings) && settings.Text("precision") == "fp32")
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
  mlp.baseline = false;
  mlp.summary = "linear layers and GELUs, forward, backward and updated, on cuBLASLt";
  if (machine.device.backend() != Backend::kCuda) mlp.missing = "exists on the cuda backend only";
  mlp.axes = {IntegerAxis("dim", "width of the layers, a multiple of 16", 16, 1 << 16, "256"),
              IntegerAxis("layers", "linear layers", 1, 64, "4"),
              IntegerAxis("batch", "rows of the input, a multiple of 16", 16, 1 << 20, "256"),
              IntegerAxis("steps", "times forward, backward and updated", 1, 64, "2"),
              ChoiceAxis("precision", "precision of the products and of what is stored",
                         {"bf16", "fp16", "tf32", "fp32"}, "bf16", "bf16"),
              ChoiceAxis("gelu", "bias, GELU and their gradients: own kernels, or fused",
                         {"kernel", "epilogue"}, "kernel,epilogue"),
              ChoiceAxis("call", "a launch for each, or one for a recorded graph of them",
                         {"loop", "graph"}, "loop,graph")};
  mlp.excluded = Excluded;
  mlp.footprint = FootprintOf;
  mlp.make = [machine, shelf = std::make_shared<OracleShelf>()](const Settings& settings) {
    return std::make_unique<MlpWorkload>(machine, settings, shelf);
  };
  return {mlp};
}

}  // namespace overlapbench
