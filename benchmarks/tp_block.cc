// Tp/Block: how much of the communication of tensor-parallel transformer blocks is exposed,
// forward, and forward and backward?
//
// Each half of a block ends with a sum over the ranks (kernels/block_half.h). The residual and
// everything after it need the sum; the dropout mask and the other micro-batch do not:
//
//   microbatches:1   comp   half 1   mask   ·····   residual, half 2   mask   ·····
//                    comm            sum                               sum
//   microbatches:2   comp   1a   1b   2a   2b   3a   3b   …
//                    comm        1a   1b   2a   2b   3a   3b
//
// with masks after, and residuals before, each part.
//
// The backward pass runs half by half in reverse. Instead of the results, it sums the gradients of
// the normed input (kernels/block_gradients.h). The gradients of the half's weights and the other
// micro-batch do not need that sum. The weight gradients are computed at once for all tokens, so
// they equal the plain form's bit for bit:
//
//   microbatches:1   comp   half 2   weights 2   norm, half 1   weights 1   norm
//                    comm            sum 2                      sum 1
//   microbatches:2   comp   2a   2b   weights 2   1a   1b   weights 1   …
//                    comm        2a   2b               1a   1b
//
// Weights may lie in host memory (`weights:host`). Those of the next half are then copied beside
// this half and its sum, which do not need them:
//
//   comp     ·····    half 1      half 2      …
//   weights  half 1   half 2      half 3      …
//
// A copy starts when the weights of the half before this one have been used, as if two halves'
// weights took turns in memory. Here each has its own memory, so that each can be checked.
//
// The plain form runs one step after the other, on all tokens at once. In the forward pass, nothing
// is left to run beside the last sum, so `layers` of two blocks or more are closer to a model.
// Random values replace the gradient of a loss.
//
// A micro-batch is a subset of the sequences. For half the tokens, the library may choose another
// kernel, so only some shapes give the plain form's result bit for bit; `identical` reports this.
// Every step's result is checked in double precision.
#include <fmt/core.h>

#include <functional>
#include <numeric>
#include <utility>

#include "benchmarks/block_schedule.h"
#include "benchmarks/training.h"
#include "kernels/attention_gradients.h"
#include "kernels/block_gradients.h"
#include "workload/tensor_step.h"

namespace overlapbench::families {
namespace {

constexpr std::uint32_t kSeed = 1U << 28;
constexpr std::uint32_t kHalvesApart = 1U << 22;

HalfShape ShapeOf(const Machine& machine, const Settings& settings, bool attends) {
  const Model model = ModelOf(settings);
  return {.attends = attends,
          .tokens = settings.Integer("tokens"),
          .sequences = settings.Integer("sequences"),
          .hidden = model.hidden,
          .inner = (attends ? model.heads * kAttentionDim : model.ffn) / machine.ranks.size()};
}

// Makes the halves of all blocks.
class Blocks {
 public:
  Blocks(const Catalog& catalog, const std::shared_ptr<Transports>& transports,
         const Settings& settings)
      : machine_(Planned(catalog.machine, settings)),
        settings_(settings),
        works_(machine_, std::make_shared<LaneCommunicator>(transports, settings), kSeed),
        shape_(works_.Shape(settings.Integer("tokens"), ModelOf(settings).hidden)) {
    shape_.is_shared = true;
  }

  // Each half reads the result of the one before it.
  std::vector<Half> Forward() {
    std::vector<Half> made;
    SharedTensor x = works_.Own(shape_);
    for (long i = 0; i < 2 * settings_.Integer("layers"); ++i) {
      halves_.push_back(MakeBlockHalf(machine_.device, ShapeOf(machine_, settings_, i % 2 == 0), x,
                                      works_.Reached(OfRank()), works_.Reached(shape_), Seed()));
      x = halves_.back().y;
      made.push_back(Forward(halves_.back(), NameOf(i)));
    }
    return made;
  }
  // In reverse order: each half leaves the gradient that the half before it reads.
  std::vector<Half> Backward() {
    std::vector<Half> made;
    SharedTensor dy = works_.Own(shape_);
    for (long i = std::ssize(halves_) - 1; i >= 0; --i) {
      const BlockGradients gradients =
          MakeBlockGradients(machine_.device, halves_[i], dy, works_.Reached(OfRank()),
                             works_.Reached(shape_), Seed());
      dy = gradients.dx;
      made.push_back(Backward(gradients, NameOf(i)));
    }
    return made;
  }

 private:
  [[nodiscard]] TensorShape OfRank() const {
    TensorShape shape = shape_;
    shape.is_shared = false;
    return shape;
  }
  std::uint32_t Seed() { return std::exchange(seed_, seed_ + kHalvesApart); }
  [[nodiscard]] std::string NameOf(long half) const {
    return fmt::format("{} {}", halves_[half].attends ? "attention" : "ffn", half / 2 + 1);
  }

  // A product has its own workspace.
  [[nodiscard]] Work StepOf(const std::string& name, const StepTensors& tensors,
                            std::function<std::unique_ptr<Workload>()> make) const {
    const std::size_t own_bytes = tensors.multiplies ? ProductWorkspaceBytes(machine_.device) : 0;
    return WorkOf(name, WorkClass::kCompute, {tensors.all, own_bytes}, std::move(make), true);
  }
  [[nodiscard]] Work SumOf(const std::string& name, const SharedTensor& from,
                           const SharedTensor& to) const {
    return works_.Move(name,
                       {{.operation = Operation::kAllReduce,
                         .send = from,
                         .receive = to,
                         .rows = shape_.rows,
                         .of_held = true}},
                       true);
  }

  // Copies the weight from host memory.
  Work CopyOf(const std::string& name, const SharedTensor& weight) {
    const SharedTensor on_host = MakeTensor(machine_.device, weight->shape(), MemoryKind::kPinned);
    return std::make_shared<const WorkPlan>(WorkPlan{
        .name = name,
        .work_class = WorkClass::kMemory,
        .footprint = {.host_bytes = weight->shape().bytes()},
        .make = [machine = machine_, on_host, weight,
                 seed =
                     Seed()] { return MakeTensorStep(machine, CopyStep(on_host, weight, seed)); },
        .is_result = true});
  }

  Half Forward(const BlockHalf& half, const std::string& name) {
    const auto step = [&](HalfStep one) {
      return StepOf(name + " " + ToString(one), TensorsOf(half, one),
                    [machine = machine_, half, one] { return MakeHalfStep(machine, half, one); });
    };
    Half made;
    if (settings_.Has("weights") && settings_.Text("weights") == "host")
      made.weight_copies = {CopyOf(name + " widen copy", half.widen),
                            CopyOf(name + " narrow copy", half.narrow)};
    for (const HalfStep one :
         {HalfStep::kNorm, HalfStep::kWiden, HalfStep::kActivate, HalfStep::kNarrow})
      made.before_sum.push_back(step(one));
    made.sum = SumOf(name + " sum", half.partial, half.sum);
    made.beside_sum = {step(HalfStep::kMask)};
    made.after_sum = step(HalfStep::kResidual);
    return made;
  }
  Half Backward(const BlockGradients& gradients, const std::string& name) {
    const auto step = [&](GradientStep one) {
      return StepOf(name + " " + ToString(one), TensorsOf(gradients, one),
                    [machine = machine_, gradients, one] {
                      return MakeGradientStep(machine, gradients, one);
                    });
    };
    Half made;
    for (const GradientStep one : StepsBeforeSum(gradients.half))
      made.before_sum.push_back(step(one));
    made.sum = SumOf(name + " gradient sum", gradients.d_partial, gradients.d_normed);
    made.weight_gradients = {step(GradientStep::kNarrowWeight), step(GradientStep::kWidenWeight)};
    made.after_sum = step(GradientStep::kNorm);
    return made;
  }

  Machine machine_;
  Settings settings_;
  TensorWorks works_;
  TensorShape shape_;  // of tensors that all ranks have
  std::vector<BlockHalf> halves_ = {};
  std::uint32_t seed_ = kSeed;
};

std::string Excluded(const Machine& machine, const Settings& settings) {
  const long tokens = settings.Integer("tokens");
  const long sequences = settings.Integer("sequences");
  if (std::string why = ExcludedModel(settings, machine.ranks.size()); !why.empty()) return why;
  if (sequences % settings.Integer("microbatches") != 0)
    return "sequences must be a multiple of microbatches";
  if (tokens % sequences != 0) return "tokens must be a multiple of sequences";
  if (machine.device.backend() == Backend::kCuda && tokens / sequences % kAttentionTokens != 0)
    return fmt::format("sequences of {} tokens are not a multiple of {}", tokens / sequences,
                       kAttentionTokens);
  const long bytes = tokens / settings.Integer("microbatches") * ModelOf(settings).hidden *
                     static_cast<long>(SizeOf(LayerElement(machine.device)));
  return NoTransport(machine, {Operation::kAllReduce},
                     settings.With("bytes", std::to_string(bytes)).With("place", "out"));
}

Remark ReportBlocks(const Measurement& measurement, Counters& counters) {
  const Remark remark = ReportTraining(
      measurement, counters, static_cast<double>(measurement.settings().Integer("tokens")),
      Identity::kReported);
  ReportHidden(measurement, counters);
  return remark;
}

enum class Passes : std::uint8_t { kForward, kForwardBackward };

std::vector<Half> HalvesOf(Blocks blocks, Passes passes) {
  std::vector<Half> halves = blocks.Forward();
  if (passes == Passes::kForward) return halves;
  for (Half& half : blocks.Backward()) halves.push_back(std::move(half));
  return halves;
}

// In the forward pass, part of the last sum is exposed. With more layers, it weighs less.
const char* DefaultLayers(bool host, Passes passes) {
  if (host) return "1";
  return passes == Passes::kForward ? "4" : "2";
}

Scenario StepThrough(Passes passes, const Catalog& catalog, const std::string& transport,
                     const std::shared_ptr<Transports>& transports) {
  constexpr long kSequences = 4;
  const bool host = catalog.on_host();
  const long ranks = catalog.machine.ranks.size();
  std::vector<Axis> axes = ModelAxes(catalog, "llama8b", {"hidden", "ffn", "heads"});
  AppendAxes(axes, {IntegerAxis("layers", "transformer blocks", 1, 64, DefaultLayers(host, passes)),
                    InUnitsOf(host ? 1 : std::lcm(kSequences * kAttentionTokens, ranks),
                              IntegerAxis("tokens", "tokens of all sequences", 1, 1L << 24,
                                          host ? "128" : "8192")),
                    IntegerAxis("sequences", "of equal length", 1, 1L << 16,
                                host ? "2" : std::to_string(kSequences)),
                    IntegerAxis("microbatches", "into which the sequences are cut", 1, 64, "1,2")});
  Scenario scenario = TrainingScenario(
      catalog, passes == Passes::kForward ? "Tp/Block/Forward" : "Tp/Block/ForwardBackward",
      "AllReduce", transport, std::move(axes));
  if (passes == Passes::kForwardBackward && scenario.missing.empty())
    scenario.missing = AttentionGradientsUnavailable(catalog.device.info());
  if (passes == Passes::kForward)
    AppendAxes(scenario.axes,
               {ChoiceAxis("weights", "where weights lie; from the host they are copied",
                           {"device", "host"}, "device", "device")});
  scenario.excluded = std::bind_front(Excluded, catalog.machine);
  scenario.runs = [passes, catalog, transports](const Settings& settings) {
    const std::vector<Half> halves = HalvesOf({catalog, transports, settings}, passes);
    return TrainingRuns(PlainForm(halves), PatternForm(halves, settings.Integer("microbatches")));
  };
  scenario.report = ReportBlocks;
  return scenario;
}

std::vector<Scenario> Scenarios(const Catalog& catalog) {
  std::vector<MakeOver> forms;
  for (const Passes passes : {Passes::kForward, Passes::kForwardBackward})
    forms.emplace_back([&, passes](const auto& transport, const auto& transports) {
      return StepThrough(passes, catalog, transport, transports);
    });
  return OverTransports(catalog, forms);
}

}  // namespace

Family TpBlock() {
  return {.name = "Tp/Block",
          .about = "Transformer blocks on tensor-parallel ranks, forward, and backward too.",
          .lead = {"speedup", "time", "sequential_ms", "pct_of_bound", "hidden_comm",
                   "exposed_comm_ms", "interference_ms"},
          .scenarios = Scenarios};
}

}  // namespace overlapbench::families
