// Attention: one forward pass of scaled dot-product attention in bfloat16, softmax(Q·Kᵀ/√d)·V for
// `heads` heads of `sequence` tokens and d = 128, without a mask.
//
// On a GPU it is our own kernel (kernels/cuda/attention.cuh). It uses tensor cores, exponentials
// and shared memory in turn, whereas a product keeps only the tensor cores busy. It contends for
// the same resources as other such kernels, but is not the fastest: cuDNN's and FlashAttention-3
// use Hopper's wgmma and bulk copies. On the host backend a block computes rows one by one, in
// float32.
//
// Cost: 4 · heads · sequence² · 128 operations, as FlashAttention's papers count, and each of the
// four matrices read or written once.

#include <algorithm>
#include <cmath>
#include <sstream>
#include <vector>

#include "device/launch.h"
#include "kernels/attention.h"
#include "workload/data.h"
#include "workload/element.h"
#include "workload/registry.h"
#ifdef __CUDACC__
#include "kernels/cuda/attention.cuh"
#endif

namespace overlapbench {
namespace {

constexpr int kDim = kAttentionDim;

#ifdef __CUDACC__
static_assert(attention::kQueries == kAttentionTokens);

void LaunchAttention(Stream& stream, const AttentionProblem& problem) {
  const auto elements = [](const void* data) { return static_cast<const __nv_bfloat16*>(data); };
  const attention::Problem on_gpu{elements(problem.queries),
                                  elements(problem.keys),
                                  elements(problem.values),
                                  static_cast<__nv_bfloat16*>(problem.results),
                                  problem.heads,
                                  problem.sequence,
                                  softmax::kLog2E * kAttentionScale,
                                  problem.inputs,
                                  problem.output};
  const auto blocks = static_cast<unsigned>(problem.rows() / kAttentionTokens);
  attention::AttentionKernel<<<blocks, attention::kThreads, attention::kSharedBytes,
                               static_cast<cudaStream_t>(stream.native())>>>(on_gpu);
  CUDA_CHECK(cudaGetLastError());
}
#else
void LaunchAttention(Stream& /*stream*/, const AttentionProblem& /*problem*/) {
  throw Error("this build has no CUDA kernels");
}
#endif

// Computes row number `row` of the result. `weights` has room for one float per token.
void AttendRow(const AttentionProblem& problem, long row, std::vector<float>& weights) {
  const auto [first, query, head] = HeadRowOf(problem, row);
  const auto at = [&, head = head](const void* data, long token, int i) {
    return LoadFloat(data, problem.inputs.At(token, head) + i, problem.element);
  };
  float max = -HUGE_VALF;
  for (long token = 0; token < problem.sequence; ++token) {
    float score = 0;
    for (int i = 0; i < kDim; ++i)
      score += at(problem.queries, query, i) * at(problem.keys, first + token, i);
    weights[token] = score * kAttentionScale;
    max = std::max(max, weights[token]);
  }
  float sum = 0;
  float results[kDim] = {};
  for (long token = 0; token < problem.sequence; ++token) {
    const float weight = std::exp(weights[token] - max);
    sum += weight;
    for (int i = 0; i < kDim; ++i) results[i] += weight * at(problem.values, first + token, i);
  }
  for (int i = 0; i < kDim; ++i)
    Store(problem.results, problem.output.At(query, head) + i, problem.element, results[i] / sum);
}

void AttendOnHost(Stream& stream, const AttentionProblem& problem) {
  constexpr int kBlocks = 64;  // enough for any number of cores to share rows evenly
  stream.EnqueueBlocks(kBlocks, [problem](int block) {
    std::vector<float> weights(problem.sequence);
    for (long row = block; row < problem.rows(); row += kBlocks) AttendRow(problem, row, weights);
  });
}

class AttentionWorkload : public Workload {
 public:
  AttentionWorkload(const Machine& machine, const Settings& settings)
      : machine_(machine),
        heads_(settings.Integer("heads")),
        sequence_(settings.Integer("sequence")),
        queries_(Allocate()),
        keys_(Allocate()),
        values_(Allocate()),
        results_(Allocate()) {
    PrepareAttention(machine.device);
  }

  [[nodiscard]] Cost cost() const override {
    return {.flops = 4.0 * static_cast<double>(count()) * static_cast<double>(sequence_),
            .moved_bytes = 4.0 * static_cast<double>(count()) * sizeof(std::uint16_t)};
  }

  void Reset(Stream& stream) override {
    FillFractions(stream, queries_.data(), count(), Element::kBfloat16, kQuerySeed);
    FillFractions(stream, keys_.data(), count(), Element::kBfloat16, kKeySeed);
    FillFractions(stream, values_.data(), count(), Element::kBfloat16, kValueSeed);
    Poison(stream, results_.data(), results_.bytes());
  }

  void Enqueue(Stream& stream) override {
    const AttentionLayout by_head{kDim, sequence_ * kDim};
    EnqueueAttention(stream, {.queries = queries_.data(),
                              .keys = keys_.data(),
                              .values = values_.data(),
                              .results = results_.data(),
                              .heads = heads_,
                              .sequence = sequence_,
                              .inputs = by_head,
                              .output = by_head});
  }

  // Every element must have been written. The first row, the last and some between are compared.
  Verdict Verify(Stream& stream) override {
    constexpr long kSamples = 16;
    constexpr std::uint32_t kSampleSeed = 99;
    const long rows = heads_ * sequence_;
    Verdict verdict;
    verdict.tolerance = AttentionError(Element::kBfloat16, sequence_).Limit((kSamples + 2) * kDim);
    verdict.fault = FindUnwritten(machine_.device, stream, results_.data(), count(),
                                  Element::kBfloat16, machine_.timeout);
    for (long i = -2; i < kSamples && verdict.fault.empty(); ++i) {
      const long sample = i < 0 ? (i + 2) * (rows - 1) : Random(kSampleSeed, i) % rows;
      CheckRow(stream, sample, verdict);
    }
    return verdict;
  }

 private:
  [[nodiscard]] long count() const { return heads_ * sequence_ * kDim; }
  Buffer Allocate() {
    return machine_.device.Allocate(count() * sizeof(std::uint16_t), MemoryKind::kDevice);
  }

  void CheckRow(Stream& stream, long row, Verdict& verdict) {
    std::vector<std::uint16_t> results(kDim);
    stream.Copy(results.data(), static_cast<const std::uint16_t*>(results_.data()) + row * kDim,
                results.size() * sizeof(std::uint16_t));
    stream.Synchronize(machine_.timeout, "verifying Attention");
    int column = 0;
    const double error = LargestError(AttentionOracle(sequence_, row / sequence_, row % sequence_),
                                      results.data(), &column);
    verdict.max_rel_err = std::max(verdict.max_rel_err, error);
    if (error <= verdict.tolerance) return;
    std::ostringstream text;
    text << "head " << row / sequence_ << ", token " << row % sequence_ << ", column " << column
         << ": error " << error << " is above " << verdict.tolerance;
    verdict.fault = text.str();
  }

  Machine machine_;
  long heads_;
  long sequence_;
  Buffer queries_;
  Buffer keys_;
  Buffer values_;
  Buffer results_;
};

}  // namespace

void PrepareAttention(const Device& device) {
  if (device.backend() == Backend::kHost) return;
#ifdef __CUDACC__
  CUDA_CHECK(cudaFuncSetAttribute(attention::AttentionKernel,
                                  cudaFuncAttributeMaxDynamicSharedMemorySize,
                                  attention::kSharedBytes));
#endif
}

void EnqueueAttention(Stream& stream, const AttentionProblem& problem) {
  if (stream.on_host()) return AttendOnHost(stream, problem);
  LaunchAttention(stream, problem);
}

std::vector<WorkloadSpec> Attention(Machine& machine) {
  const bool host = machine.device.backend() == Backend::kHost;
  WorkloadSpec spec;
  spec.name = "Attention";
  spec.summary = "scaled dot-product attention in bf16, forward, in one kernel";
  spec.axes = {IntegerAxis("heads", "heads of all sequences together", 1, 1024, host ? "2" : "32"),
               IntegerAxis("sequence", "tokens, a multiple of 128", kAttentionTokens, 1 << 16,
                           host ? "128" : "4096")};
  spec.excluded = [](const Settings& settings) {
    return settings.Integer("sequence") % kAttentionTokens == 0
               ? ""
               : "sequence must be a multiple of 128";
  };
  spec.footprint = [](const Settings& settings) {
    const std::size_t rows = settings.Integer("heads") * settings.Integer("sequence");
    return Footprint{4 * rows * kDim * sizeof(std::uint16_t), 0};
  };
  spec.make = MakerOf<AttentionWorkload>(machine);
  return {spec};
}

}  // namespace overlapbench
