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
#include "kernels/attention_gradients.h"
#include "kernels/block_gradients.h"
#include "workload/tensor_step.h"

namespace overlapbench::families {
namespace {

constexpr std::uint32_t kSeed = 1U << 28;
constexpr std::uint32_t kHalvesApart = 1U << 22;

// Makes the works of all blocks.
class Blocks {
 public:
  Blocks(const TensorWorks& works, const Settings& settings)
      : works_(works),
        from_host_(settings.Has("weights") && settings.Text("weights") == "host"),
        halves_(MakeHalves(works, settings, [this] { return Seed(); })) {}

  std::vector<Half> Forward() {
    std::vector<Half> made;
    for (std::size_t i = 0; i < halves_.size(); ++i)
      made.push_back(Forward(halves_[i], NameOf(halves_[i], i)));
    return made;
  }
  // In reverse order: each half leaves the gradient that the half before it reads.
  std::vector<Half> Backward() {
    std::vector<Half> made;
    SharedTensor dy = works_.Own(halves_.back().y->shape());
    for (std::size_t i = halves_.size(); i-- > 0;) {
      const BlockHalf& half = halves_[i];
      const BlockGradients gradients = MakeBlockGradients(works_.machine().device, half, dy,
                                                          works_.Reached(half.partial->shape()),
                                                          works_.Reached(dy->shape()), Seed());
      dy = gradients.dx;
      made.push_back(Backward(gradients, NameOf(half, i)));
    }
    return made;
  }

 private:
  std::uint32_t Seed() { return std::exchange(seed_, seed_ + kHalvesApart); }

  // Copies the weight from host memory.
  Work CopyOf(const std::string& name, const SharedTensor& weight) {
    const Machine& machine = works_.machine();
    const SharedTensor on_host = MakeTensor(machine.device, weight->shape(), MemoryKind::kPinned);
    return std::make_shared<const WorkPlan>(WorkPlan{
        .name = name,
        .work_class = WorkClass::kMemory,
        .footprint = {.host_bytes = weight->shape().bytes()},
        .make = [machine, on_host, weight,
                 seed =
                     Seed()] { return MakeTensorStep(machine, CopyStep(on_host, weight, seed)); },
        .is_result = true});
  }

  Half Forward(const BlockHalf& half, const std::string& name) {
    const auto step = [&](HalfStep one) {
      return works_.Step(
          name + " " + ToString(one), TensorsOf(half, one),
          [machine = works_.machine(), half, one] { return MakeHalfStep(machine, half, one); });
    };
    Half made = ForwardOf(works_, half, name, step);
    made.beside_sum = {step(HalfStep::kMask)};
    if (from_host_)
      made.weight_copies = {CopyOf(name + " widen copy", half.widen),
                            CopyOf(name + " narrow copy", half.narrow)};
    return made;
  }
  [[nodiscard]] Half Backward(const BlockGradients& gradients, const std::string& name) const {
    const auto step = [&](GradientStep one) {
      return works_.Step(name + " " + ToString(one), TensorsOf(gradients, one),
                         [machine = works_.machine(), gradients, one] {
                           return MakeGradientStep(machine, gradients, one);
                         });
    };
    Half made;
    for (const GradientStep one : StepsBeforeSum(gradients.half))
      made.before_sum.push_back(step(one));
    made.sum = works_.Sum(name + " gradient sum", gradients.d_partial, gradients.d_normed);
    made.weight_gradients = {step(GradientStep::kNarrowWeight), step(GradientStep::kWidenWeight)};
    made.after_sum = step(GradientStep::kNorm);
    return made;
  }

  const TensorWorks& works_;
  bool from_host_;
  std::uint32_t seed_ = kSeed;
  std::vector<BlockHalf> halves_;
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
  return ExcludedTransport(machine, {Operation::kAllReduce}, settings,
                           tokens / settings.Integer("microbatches") * ModelOf(settings).hidden,
                           "out");
}

Remark ReportBlocks(const Measurement& measurement, Counters& counters) {
  const Remark remark = ReportTraining(
      measurement, counters, static_cast<double>(measurement.settings().Integer("tokens")),
      Identity::kReported);
  ReportHidden(measurement, counters);
  return remark;
}

enum class Passes : std::uint8_t { kForward, kForwardBackward };

std::vector<Run> BlockRuns(Passes passes, const TensorWorks& works, const Settings& settings) {
  Blocks blocks(works, settings);
  std::vector<Half> halves = blocks.Forward();
  if (passes == Passes::kForwardBackward)
    for (Half& half : blocks.Backward()) halves.push_back(std::move(half));
  return TrainingRuns(PlainForm(halves), PatternForm(halves, settings.Integer("microbatches")));
}

// In the forward pass, part of the last sum is exposed. With more layers, it weighs less.
const char* DefaultLayers(bool host, Passes passes) {
  if (host) return "1";
  return passes == Passes::kForward ? "4" : "2";
}

TrainingForm StepThrough(Passes passes, const Catalog& catalog) {
  constexpr long kSequences = 4;
  const bool host = catalog.on_host();
  const bool forward = passes == Passes::kForward;
  const long ranks = catalog.machine.ranks.size();
  std::vector<Axis> axes = ModelAxes(catalog, "llama8b", {"hidden", "ffn", "heads"});
  AppendAxes(axes, {IntegerAxis("layers", "transformer blocks", 1, 64, DefaultLayers(host, passes)),
                    InUnitsOf(host ? 1 : std::lcm(kSequences * kAttentionTokens, ranks),
                              IntegerAxis("tokens", "tokens of all sequences", 1, 1L << 24,
                                          host ? "128" : "8192")),
                    IntegerAxis("sequences", "of equal length", 1, 1L << 16,
                                host ? "2" : std::to_string(kSequences)),
                    IntegerAxis("microbatches", "into which the sequences are cut", 1, 64, "1,2")});
  TrainingForm form{.scenario = {.name = forward ? "Tp/Block/Forward" : "Tp/Block/ForwardBackward",
                                 .axes = std::move(axes),
                                 .excluded = std::bind_front(Excluded, catalog.machine),
                                 .report = ReportBlocks},
                    .collective = "AllReduce",
                    .seed = kSeed,
                    .runs = std::bind_front(BlockRuns, passes)};
  if (forward)
    form.later_axes = {ChoiceAxis("weights", "where weights lie; from the host they are copied",
                                  {"device", "host"}, "device", "device")};
  else
    form.scenario.missing = AttentionGradientsUnavailable(catalog.device.info());
  return form;
}

}  // namespace

Family TpBlock() {
  return {.name = "Tp/Block",
          .about = "Transformer blocks on tensor-parallel ranks, forward, and backward too.",
          .lead = {"speedup", "time", "sequential_ms", "pct_of_bound", "hidden_comm",
                   "exposed_comm_ms", "interference_ms"},
          .scenarios = [](const Catalog& catalog) {
            return OverTransports(catalog, {StepThrough(Passes::kForward, catalog),
                                            StepThrough(Passes::kForwardBackward, catalog)});
          }};
}

}  // namespace overlapbench::families
