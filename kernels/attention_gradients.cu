#include <algorithm>
#include <cmath>
#include <numeric>
#include <sstream>
#include <vector>

#include "device/launch.h"
#include "kernels/attention_gradients.h"
#include "workload/element.h"
#ifdef __CUDACC__
#include "kernels/cuda/attention_gradients.cuh"
#endif

namespace overlapbench {
namespace {

#ifdef __CUDACC__
static_assert(attention::kGradientsSharedBytes == kAttentionGradientsSharedBytes);

const __nv_bfloat16* Bfloats(const void* data) { return static_cast<const __nv_bfloat16*>(data); }

unsigned BlocksOf(const AttentionProblem& attention) {
  return static_cast<unsigned>(attention.rows() / kAttentionTokens);
}

void LaunchLogSums(Stream& stream, const AttentionProblem& attention, float* log_sums) {
  attention::
      LogSumsKernel<<<BlocksOf(attention), attention::kThreads, attention::kLogSumsSharedBytes,
                      static_cast<cudaStream_t>(stream.native())>>>(
          {Bfloats(attention.queries), Bfloats(attention.keys), log_sums, attention.heads,
           attention.sequence, kAttentionScale, attention.inputs});
  CUDA_CHECK(cudaGetLastError());
}

void LaunchGradients(Stream& stream, const AttentionGradients& problem) {
  const AttentionProblem& forward = problem.attention;
  const attention::Operands of_queries{Bfloats(forward.queries), Bfloats(problem.result_gradients),
                                       forward.inputs, forward.output};
  const attention::Operands of_keys{Bfloats(forward.keys), Bfloats(forward.values), forward.inputs,
                                    forward.inputs};
  const auto launch = [&]<bool kOfQueries>(const attention::Operands& own,
                                           const attention::Operands& other, void* of_scored,
                                           void* of_weighted) {
    attention::GradientsKernel<kOfQueries>
        <<<BlocksOf(forward), attention::kThreads, attention::kGradientsSharedBytes,
           static_cast<cudaStream_t>(stream.native())>>>(
            {own, other, problem.log_sums, problem.products, static_cast<__nv_bfloat16*>(of_scored),
             static_cast<__nv_bfloat16*>(of_weighted), forward.heads, forward.sequence,
             kAttentionScale, forward.inputs});
    CUDA_CHECK(cudaGetLastError());
  };
  launch.template operator()<true>(of_queries, of_keys, problem.query_gradients, nullptr);
  launch.template operator()<false>(of_keys, of_queries, problem.key_gradients,
                                    problem.value_gradients);
}
#else
void LaunchLogSums(Stream& /*stream*/, const AttentionProblem& /*attention*/, float* /*log_sums*/) {
  throw Error("this build has no CUDA kernels");
}
void LaunchGradients(Stream& /*stream*/, const AttentionGradients& /*problem*/) {
  throw Error("this build has no CUDA kernels");
}
#endif

// ---- The host backend: row by row, in float32

using Values = float[kAttentionDim];

void LoadRow(const void* data, Element element, long first, Values& values) {
  for (int i = 0; i < kAttentionDim; ++i) values[i] = LoadFloat(data, first + i, element);
}

void StoreRow(void* data, Element element, long first, const Values& values) {
  for (int i = 0; i < kAttentionDim; ++i) Store(data, first + i, element, values[i]);
}

float Dot(const Values& left, const Values& right) {
  constexpr int kChains = 16;  // of additions that a core keeps in flight
  float sums[kChains] = {};
  for (int i = 0; i < kAttentionDim; ++i) sums[i % kChains] += left[i] * right[i];
  return std::accumulate(sums, sums + kChains, 0.0F);
}

void AddScaled(float factor, const Values& values, Values& sums) {
  for (int i = 0; i < kAttentionDim; ++i) sums[i] += factor * values[i];
}

void SumRow(const AttentionProblem& attention, float* log_sums, long row,
            std::vector<float>& scores) {
  const auto [first, token, head] = HeadRowOf(attention, row);
  Values query;
  Values key;
  LoadRow(attention.queries, attention.element, attention.inputs.At(token, head), query);
  for (long j = 0; j < attention.sequence; ++j) {
    LoadRow(attention.keys, attention.element, attention.inputs.At(first + j, head), key);
    scores[j] = Dot(query, key) * kAttentionScale;
  }
  const float max = *std::ranges::max_element(scores);
  float sum = 0;
  for (const float score : scores) sum += std::exp(score - max);
  log_sums[token * attention.heads + head] = max + std::log(sum);
}

// The values of one token in a head.
struct QueryRow {
  Values query;
  Values result_gradient;
  float log_sum;
  float product;
};
struct KeyRow {
  Values key;
  Values value;
};

class HeadGradients {
 public:
  explicit HeadGradients(const AttentionGradients& problem) : problem_(problem) {}

  void OfQuery(long row) const {
    const auto [first, token, head] = HeadRowOf(problem_.attention, row);
    QueryRow own;
    KeyRow other;
    Load(token, head, own);
    Values sums = {};
    for (long j = 0; j < problem_.attention.sequence; ++j) {
      Load(first + j, head, other);
      AddScaled(OfScore(own, other, Probability(own, other)), other.key, sums);
    }
    Store(problem_.query_gradients, token, head, sums);
  }
  void OfKey(long row) const {
    const auto [first, token, head] = HeadRowOf(problem_.attention, row);
    KeyRow own;
    QueryRow other;
    Load(token, head, own);
    Values of_key = {};
    Values of_value = {};
    for (long i = 0; i < problem_.attention.sequence; ++i) {
      Load(first + i, head, other);
      const float probability = Probability(other, own);
      AddScaled(OfScore(other, own, probability), other.query, of_key);
      AddScaled(probability, other.result_gradient, of_value);
    }
    Store(problem_.key_gradients, token, head, of_key);
    Store(problem_.value_gradients, token, head, of_value);
  }

 private:
  void Load(long token, long head, QueryRow& row) const {
    const AttentionProblem& forward = problem_.attention;
    LoadRow(forward.queries, forward.element, forward.inputs.At(token, head), row.query);
    LoadRow(problem_.result_gradients, forward.element, forward.output.At(token, head),
            row.result_gradient);
    row.log_sum = problem_.log_sums[token * forward.heads + head];
    row.product = problem_.products[token * forward.heads + head];
  }
  void Load(long token, long head, KeyRow& row) const {
    const AttentionProblem& forward = problem_.attention;
    LoadRow(forward.keys, forward.element, forward.inputs.At(token, head), row.key);
    LoadRow(forward.values, forward.element, forward.inputs.At(token, head), row.value);
  }
  static float Probability(const QueryRow& query, const KeyRow& key) {
    return std::exp(Dot(query.query, key.key) * kAttentionScale - query.log_sum);
  }
  // ds
  static float OfScore(const QueryRow& query, const KeyRow& key, float probability) {
    return probability * (Dot(query.result_gradient, key.value) - query.product) * kAttentionScale;
  }
  void Store(void* gradients, long token, long head, const Values& values) const {
    const AttentionProblem& forward = problem_.attention;
    StoreRow(gradients, forward.element, forward.inputs.At(token, head), values);
  }

  AttentionGradients problem_;
};

constexpr int kHostBlocks = 64;  // enough for any number of cores to share rows evenly

void SumOnHost(Stream& stream, const AttentionProblem& attention, float* log_sums) {
  stream.EnqueueBlocks(kHostBlocks, [attention, log_sums](int block) {
    std::vector<float> scores(attention.sequence);
    for (long row = block; row < attention.rows(); row += kHostBlocks)
      SumRow(attention, log_sums, row, scores);
  });
}

void DifferentiateOnHost(Stream& stream, const AttentionGradients& problem) {
  stream.EnqueueBlocks(kHostBlocks, [problem](int block) {
    const HeadGradients gradients(problem);
    for (long row = block; row < problem.attention.rows(); row += kHostBlocks) {
      gradients.OfQuery(row);
      gradients.OfKey(row);
    }
  });
}

}  // namespace

// Most shared memory of a block: CUDA C++ Programming Guide, "Technical Specifications per Compute
// Capability".
std::string AttentionGradientsUnavailable(const DeviceInfo& device) {
  constexpr int kKiB = 1024;
  constexpr int kLittle_KiB = 99;
  static_assert(kLittle_KiB * kKiB < kAttentionGradientsSharedBytes);
  const int capability = device.compute_capability;
  if (capability != 86 && capability != 89 && capability / 10 != 12) return "";
  std::ostringstream text;
  text << "attention's backward pass needs " << kAttentionGradientsSharedBytes / kKiB
       << " KiB of shared memory per block, GPUs of compute capability " << capability / 10 << "."
       << capability % 10 << " have " << kLittle_KiB;
  return text.str();
}

void PrepareAttentionGradients(const Device& device) {
  if (device.backend() == Backend::kHost) return;
#ifdef __CUDACC__
  const auto prepare = [](auto* kernel, int shared_bytes) {
    CUDA_CHECK(cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel),
                                    cudaFuncAttributeMaxDynamicSharedMemorySize, shared_bytes));
  };
  prepare(attention::LogSumsKernel, attention::kLogSumsSharedBytes);
  prepare(attention::GradientsKernel<true>, attention::kGradientsSharedBytes);
  prepare(attention::GradientsKernel<false>, attention::kGradientsSharedBytes);
#endif
}

void EnqueueLogSums(Stream& stream, const AttentionProblem& attention, float* log_sums) {
  if (stream.on_host()) return SumOnHost(stream, attention, log_sums);
  LaunchLogSums(stream, attention, log_sums);
}

void EnqueueAttentionGradients(Stream& stream, const AttentionGradients& problem) {
  if (stream.on_host()) return DifferentiateOnHost(stream, problem);
  LaunchGradients(stream, problem);
}

}  // namespace overlapbench
