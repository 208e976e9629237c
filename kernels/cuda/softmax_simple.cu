// The softmax variants that the fused one is compared with: unfused, one block per row, two passes.

#include "device/cuda/cuda_check.h"
#include "kernels/cuda/launchers.h"
#include "kernels/cuda/softmax_row.cuh"

namespace overlapbench {
namespace softmax {
namespace {

// ---- unfused: five launches. The two temporary matrices have the data's type, as in a framework.
// The maxima and sums, one value per row, stay float32, because a sum of more than 65,504
// exponentials overflows float16.

constexpr int kReductionThreads = 256;
constexpr int kElementThreads = 256;

template <class T>
__global__ void RowMax(const T* in, float* maxima, long columns) {
  __shared__ float shared[32];
  const T* row = in + blockIdx.x * columns;
  float max = MinusInfinity();
  for (long i = threadIdx.x; i < columns; i += blockDim.x) {
    max = fmaxf(max, Format<T>::ToFloat(row[i]));
  }
  max = MaxOverBlock(max, shared);
  if (threadIdx.x == 0) maxima[blockIdx.x] = max;
}

template <class T>
__global__ void RowSum(const T* in, float* sums, long columns) {
  __shared__ float shared[32];
  const T* row = in + blockIdx.x * columns;
  float sum = 0;
  for (long i = threadIdx.x; i < columns; i += blockDim.x) sum += Format<T>::ToFloat(row[i]);
  sum = SumOverBlock(sum, shared);
  if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}

// One element per thread: out[i] = operation(in[i], of_rows[row of i]).
template <class T, class Operation>
__global__ void ForEachElement(const T* in, const float* of_rows, T* out, long count, long columns,
                               Operation operation) {
  const long i = static_cast<long>(blockIdx.x) * kElementThreads + threadIdx.x;
  if (i >= count) return;
  out[i] = Format<T>::FromFloat(operation(Format<T>::ToFloat(in[i]), of_rows[i / columns]));
}
struct Subtract {
  __device__ float operator()(float x, float max) const { return x - max; }
};
struct TakeExponential {
  __device__ float operator()(float x, float /*unused*/) const { return Exponential(x); }
};
struct Divide {
  __device__ float operator()(float x, float sum) const { return x / sum; }
};

// The layout of the workspace.
template <class T>
struct Temporaries {
  T* shifted;
  T* exponentials;
  float* of_rows;  // maxima, then sums
  Temporaries(void* workspace, long rows, long columns)
      : shifted(static_cast<T*>(workspace)),
        exponentials(shifted + rows * columns),
        of_rows(reinterpret_cast<float*>(exponentials + rows * columns)) {}
};

template <class T>
void LaunchUnfused(const SoftmaxProblem& problem, cudaStream_t stream) {
  const Temporaries<T> temporaries(problem.workspace, problem.rows, problem.columns);
  const auto* in = static_cast<const T*>(problem.input);
  const long columns = problem.columns;
  const long count = problem.rows * columns;
  const auto rows = static_cast<unsigned>(problem.rows);
  const auto blocks = static_cast<unsigned>((count + kElementThreads - 1) / kElementThreads);
  float* of_rows = temporaries.of_rows;
  RowMax<<<rows, kReductionThreads, 0, stream>>>(in, of_rows, columns);
  ForEachElement<<<blocks, kElementThreads, 0, stream>>>(in, of_rows, temporaries.shifted, count,
                                                         columns, Subtract{});
  ForEachElement<<<blocks, kElementThreads, 0, stream>>>(
      temporaries.shifted, of_rows, temporaries.exponentials, count, columns, TakeExponential{});
  RowSum<<<rows, kReductionThreads, 0, stream>>>(temporaries.exponentials, of_rows, columns);
  ForEachElement<<<blocks, kElementThreads, 0, stream>>>(
      temporaries.exponentials, of_rows, static_cast<T*>(problem.output), count, columns, Divide{});
}

// ---- one block per row: the textbook's tree over a power of two of threads

constexpr int kMostTreeThreads = 1024;

template <class Merge>
__device__ float ReduceAsTree(float value, float* tree, const Merge& merge) {
  tree[threadIdx.x] = value;
  __syncthreads();
  for (unsigned half = blockDim.x / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) tree[threadIdx.x] = merge(tree[threadIdx.x], tree[threadIdx.x + half]);
    __syncthreads();
  }
  const float result = tree[0];
  __syncthreads();  // before the tree is used again
  return result;
}

template <class T>
__global__ void BlockPerRowKernel(const T* in, T* out, long columns) {
  __shared__ float tree[kMostTreeThreads];
  const T* row = in + blockIdx.x * columns;
  T* to = out + blockIdx.x * columns;
  float max = MinusInfinity();
  for (long i = threadIdx.x; i < columns; i += blockDim.x) {
    max = fmaxf(max, Format<T>::ToFloat(row[i]));
  }
  max = ReduceAsTree(max, tree, [](float a, float b) { return fmaxf(a, b); });
  float sum = 0;
  for (long i = threadIdx.x; i < columns; i += blockDim.x) {
    sum += Exponential(Format<T>::ToFloat(row[i]) - max);
  }
  sum = ReduceAsTree(sum, tree, [](float a, float b) { return a + b; });
  for (long i = threadIdx.x; i < columns; i += blockDim.x) {
    to[i] = Format<T>::FromFloat(Exponential(Format<T>::ToFloat(row[i]) - max) / sum);
  }
}

// ---- two passes: one for maximum and sum together

constexpr int kTwoPassThreads = 512;
constexpr int kTwoPassVectors = 4;

template <class T>
__global__ __launch_bounds__(kTwoPassThreads) void TwoPassKernel(const T* in, T* out,
                                                                 long columns) {
  __shared__ Partial shared[32];
  const T* row = in + blockIdx.x * columns;
  T* to = out + blockIdx.x * columns;
  const Span<T> span(row, static_cast<int>(columns));
  const int thread = static_cast<int>(threadIdx.x);
  const int edge = span.Edge(thread);
  const float edge_value = LoadEdge(row, edge);
  const TwiceReadVectors<T, kTwoPassThreads, kTwoPassVectors> vectors{
      reinterpret_cast<const uint4*>(row + span.head), thread, span.vectors};
  const Normalizer normalizer(MergeOverBlock(vectors.Sum(edge_value), shared));
  vectors.Write(to + span.head, normalizer);
  StoreEdge(to, edge, edge_value, normalizer);
}

}  // namespace
}  // namespace softmax

void LaunchUnfusedSoftmax(cudaStream_t stream, const SoftmaxProblem& problem) {
  softmax::VisitElementType(
      problem.element, [&](auto type) { softmax::LaunchUnfused<decltype(type)>(problem, stream); });
  CUDA_CHECK(cudaGetLastError());
}

void LaunchBlockPerRowSoftmax(cudaStream_t stream, const SoftmaxProblem& problem) {
  int threads = 32;
  while (threads < softmax::kMostTreeThreads && threads < problem.columns) threads *= 2;
  softmax::VisitElementType(problem.element, [&](auto type) {
    using T = decltype(type);
    softmax::BlockPerRowKernel<<<static_cast<unsigned>(problem.rows), threads, 0, stream>>>(
        static_cast<const T*>(problem.input), static_cast<T*>(problem.output), problem.columns);
  });
  CUDA_CHECK(cudaGetLastError());
}

void LaunchTwoPassSoftmax(cudaStream_t stream, const SoftmaxProblem& problem) {
  softmax::VisitElementType(problem.element, [&](auto type) {
    using T = decltype(type);
    softmax::
        TwoPassKernel<<<static_cast<unsigned>(problem.rows), softmax::kTwoPassThreads, 0, stream>>>(
            static_cast<const T*>(problem.input), static_cast<T*>(problem.output), problem.columns);
  });
  CUDA_CHECK(cudaGetLastError());
}

}  // namespace overlapbench
