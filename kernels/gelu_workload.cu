// GeluUnfused, GeluFusedScalar, GeluFused: the activation GELU as a memory-bound kernel
// (kernels/gelu.h), in three states of tuning.
//
// Cost: the bytes that a variant moves; Unfused moves 5 to 14 times as much as the others. Inputs
// are random in (−4, 4), where GELU bends; gradients in (−1, 1).

#include <array>

#include "device/launch.h"
#include "kernels/gelu_oracle.h"
#include "workload/data.h"
#include "workload/registry.h"

namespace overlapbench {
namespace {

constexpr std::uint32_t kInputSeed = 1;
constexpr std::uint32_t kGradSeed = 2;

// data[i] = 4·RandomFraction(seed, i): multiples of 1/32, exact in every type.
struct FillInputBody {
  static constexpr int kThreads = 256;
  void* data;
  long count;
  Element element;
  OVERLAPBENCH_BODY void operator()(const Block& block) const {
    block.ForEach(count,
                  [this](long i) { Store(data, i, element, 4 * RandomFraction(kInputSeed, i)); });
  }
};

Element ElementOf(const Settings& settings) { return ElementNamed(settings.Text("precision")); }

bool IsBackward(const Settings& settings) { return settings.Text("direction") == "backward"; }

// Tensors in memory at once: input, output, the gradient, and scratch.
long TensorCount(GeluVariant variant, bool backward) {
  if (!backward) return 2;
  return variant == GeluVariant::kUnfused ? 4 : 3;
}

class GeluWorkload : public Workload {
 public:
  GeluWorkload(Machine& machine, GeluVariant variant, const Settings& settings)
      : machine_(machine), allocated_(settings.Integer("count") + settings.Integer("offset")) {
    problem_.variant = variant;
    problem_.form = settings.Text("form") == "tanh" ? GeluForm::kTanh : GeluForm::kErf;
    problem_.direction = IsBackward(settings) ? GeluDirection::kBackward : GeluDirection::kForward;
    problem_.element = ElementOf(settings);
    const long offset = settings.Integer("offset");
    problem_.tensors.count = settings.Integer("count");
    problem_.tensors.input = Allocate(input_, offset);
    problem_.tensors.output = Allocate(output_, offset);
    if (!IsBackward(settings)) return;
    problem_.tensors.grad = Allocate(grad_, offset);
    if (variant == GeluVariant::kUnfused) problem_.tensors.scratch = Allocate(scratch_, offset);
  }

  [[nodiscard]] Cost cost() const override {
    const auto count = static_cast<double>(problem_.tensors.count);
    return {.moved_bytes = GeluPasses(problem_.variant, problem_.form, problem_.direction) * count *
                           static_cast<double>(SizeOf(problem_.element))};
  }

  void Reset(Stream& stream) override {
    Launch(stream, kFillBlocks, FillInputBody{input_.data(), allocated_, problem_.element});
    if (grad_.data() != nullptr)
      FillFractions(stream, grad_.data(), allocated_, problem_.element, kGradSeed);
    Poison(stream, output_.data(), output_.bytes());
    if (scratch_.data() != nullptr) Poison(stream, scratch_.data(), scratch_.bytes());
  }

  void Enqueue(Stream& stream) override { LaunchGelu(stream, problem_); }

  Verdict Verify(Stream& stream) override {
    const auto timeout = machine_.timeout;
    std::string unwritten = FindUnwritten(machine_.device, stream, problem_.tensors.output,
                                          problem_.tensors.count, problem_.element, timeout);
    if (!unwritten.empty()) return {1, 0, std::move(unwritten)};
    return VerifyGelu(machine_.device, stream, problem_, timeout);
  }

 private:
  static constexpr int kFillBlocks = 1024;

  // Sets `buffer` and returns its start, `offset` elements in.
  void* Allocate(Buffer& buffer, long offset) {
    const std::size_t size = SizeOf(problem_.element);
    buffer = machine_.device.Allocate(allocated_ * size, MemoryKind::kDevice);
    return static_cast<std::byte*>(buffer.data()) + offset * size;
  }

  Machine machine_;
  long allocated_;  // elements of a buffer
  GeluProblem problem_;
  Buffer input_;
  Buffer output_;
  Buffer grad_;
  Buffer scratch_;
};

struct Variant {
  std::string_view name;
  std::string_view summary;
  GeluVariant variant;
};
constexpr std::array<Variant, 3> kVariants = {{
    {"GeluUnfused", "GELU, one launch per operation", GeluVariant::kUnfused},
    {"GeluFusedScalar", "GELU in one launch, one element per thread", GeluVariant::kFusedScalar},
    {"GeluFused", "GELU in one launch, 16 bytes per access", GeluVariant::kFused},
}};

WorkloadSpec Spec(Machine& machine, const Variant& variant) {
  const bool host = machine.device.backend() == Backend::kHost;
  WorkloadSpec spec;
  spec.name = variant.name;
  spec.summary = variant.summary;
  spec.baseline = false;
  spec.axes = {IntegerAxis("count", "elements", 1, 1L << 31, host ? "1048576" : "268435456"),
               ChoiceAxis("precision", "type of the elements", {"bf16", "fp16", "fp32"}, "bf16"),
               ChoiceAxis("form", "tanh: the approximation; erf: exact", {"tanh", "erf"}, "tanh"),
               ChoiceAxis("direction", "forward: gelu(x); backward: grad*gelu'(x)",
                          {"forward", "backward"}, "forward", "forward"),
               IntegerAxis("offset", "offset of every tensor from a 256-byte boundary, in elements",
                           0, 1024, "0", "0")};
  spec.footprint = [kind = variant.variant](const Settings& settings) {
    const std::size_t elements = settings.Integer("count") + settings.Integer("offset");
    const long tensors = TensorCount(kind, IsBackward(settings));
    return Footprint{tensors * elements * SizeOf(ElementOf(settings)), 0};
  };
  spec.make = [machine, kind = variant.variant](const Settings& settings) mutable {
    return std::make_unique<GeluWorkload>(machine, kind, settings);
  };
  return spec;
}

}  // namespace

std::vector<WorkloadSpec> Gelu(Machine& machine) {
  std::vector<WorkloadSpec> specs;
  for (const Variant& variant : kVariants) specs.push_back(Spec(machine, variant));
  return specs;
}

}  // namespace overlapbench
