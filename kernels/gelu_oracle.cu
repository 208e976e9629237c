#include <sstream>
#include <vector>

#include "device/launch.h"
#include "kernels/gelu_oracle.h"
#include "workload/data.h"
#include "workload/rounding_error.h"

namespace overlapbench {
namespace {

constexpr int kBlocks = 512;

// The worst element that a thread found. An element that is NaN and should not be, or the other way
// round, is infinitely wrong; so is one that was never written.
struct Finding {
  double error = 0;  // relative to |expected| + scale + the smallest normal number
  long index = 0;
};

struct CheckBody {
  static constexpr int kThreads = 256;
  GeluProblem problem;
  double smallest_normal;  // of the element type
  Finding* findings;       // one per thread

  OVERLAPBENCH_BODY void operator()(const Block& block) const {
    Finding worst;
    block.ForEach(problem.tensors.count, [this, &worst](long i) {
      const double error = ErrorOf(i);
      if (error > worst.error) worst = {error, i};
    });
    findings[block.index * kThreads + block.thread] = worst;
  }

  [[nodiscard]] OVERLAPBENCH_BODY double Expected(long i) const {
    const double x = Load(problem.tensors.input, i, problem.element);
    if (problem.direction == GeluDirection::kForward) return GeluValue(problem.form, x);
    return Load(problem.tensors.grad, i, problem.element) * GeluDerivative(problem.form, x);
  }

  [[nodiscard]] OVERLAPBENCH_BODY double Scale(long i) const {
    const double x = fabs(Load(problem.tensors.input, i, problem.element));
    const bool fused = problem.variant != GeluVariant::kUnfused;
    if (problem.direction == GeluDirection::kForward) return fused ? 1e-3 : x;
    const double grad = fabs(Load(problem.tensors.grad, i, problem.element));
    if (!fused) return grad * (1 + x + x * x * x / 5);
    return grad * (problem.element == Element::kFloat32 ? 0.1 : 1e-3);
  }

  [[nodiscard]] OVERLAPBENCH_BODY double ErrorOf(long i) const {
    constexpr double kInfinity = HUGE_VAL;
    const double expected = Expected(i);
    const double got = Load(problem.tensors.output, i, problem.element);
    if (got == expected || (got != got && expected != expected)) return 0;
    const double error = fabs(got - expected) / (fabs(expected) + Scale(i) + smallest_normal);
    return error < kInfinity ? error : kInfinity;
  }
};

}  // namespace

double GeluTolerance(Element element, GeluVariant variant) {
  constexpr double kInApproximation = 1.1;
  constexpr double kInSteps = 8;
  if (variant == GeluVariant::kUnfused) return kInSteps * UnitRoundoff(element);
  return element == Element::kFloat32 ? 1e-6 : kInApproximation * UnitRoundoff(element);
}

Verdict VerifyGelu(Device& device, Stream& stream, const GeluProblem& problem,
                   std::chrono::milliseconds timeout) {
  std::vector<Finding> findings(static_cast<std::size_t>(kBlocks) * CheckBody::kThreads);
  const std::size_t bytes = findings.size() * sizeof(Finding);
  const Buffer found = device.Allocate(bytes, MemoryKind::kDevice);
  stream.Copy(found.data(), findings.data(), bytes);  // a host block writes only its first
  const double smallest_normal = problem.element == Element::kFloat16 ? 0x1p-14 : 0x1p-126;
  Launch(stream, kBlocks, CheckBody{problem, smallest_normal, static_cast<Finding*>(found.data())});
  stream.Copy(findings.data(), found.data(), bytes);
  stream.Synchronize(timeout, "verifying GELU");

  Finding worst;
  for (const Finding& finding : findings) {
    if (finding.error > worst.error) worst = finding;
  }
  Verdict verdict{worst.error, GeluTolerance(problem.element, problem.variant), ""};
  if (worst.error <= verdict.tolerance) return verdict;
  std::ostringstream text;
  text << "element " << worst.index << " of " << problem.tensors.count << " is "
       << ReadElement(stream, problem.tensors.output, worst.index, problem.element, timeout)
       << " where x is "
       << ReadElement(stream, problem.tensors.input, worst.index, problem.element, timeout)
       << ": its relative error is " << worst.error << ", above " << verdict.tolerance;
  verdict.fault = text.str();
  return verdict;
}

}  // namespace overlapbench
