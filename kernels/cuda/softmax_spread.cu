// The fused softmax's rows that no regime holds: every row is cut into parts, which all SMs share.
//
// One launch sums up the parts, the next one writes their results, so that no block ever waits for
// another. That is three passes over the matrix where a copy takes two. Taking few rows at a time,
// so that the second reading comes from the cache, is slower: memory idles while a launch begins
// and while it ends.

#include <algorithm>

#include "kernels/cuda/softmax_fused.h"
#include "kernels/cuda/softmax_row.cuh"

namespace overlapbench::softmax {
namespace {

constexpr int kSpreadThreads = 512;
constexpr int kSpreadVectors = 4;
constexpr int kSpreadStep = kSpreadThreads * kSpreadVectors;
constexpr long kMostPartsOfRow = 16384;
constexpr long kMostPartsOfGroup = 131072;

// How rows are cut, the same for all.
struct Cut {
  int columns = 0;
  int vectors = 0;     // of a part
  unsigned parts = 0;  // of a row
};

template <class T>
struct Group {
  const T* in = nullptr;
  T* out = nullptr;
  Partial* partials = nullptr;  // of all its parts
};

// A part as a block works on it. A row's edges, which are not whole vectors, go to its first part.
template <class T>
class Part {
 public:
  __device__ Part(const Cut& cut, const Group<T>& group, unsigned number)
      : row_(number / cut.parts),
        place_(static_cast<int>(number % cut.parts)),
        in_(group.in + static_cast<long>(row_) * cut.columns),
        out_(group.out + static_cast<long>(row_) * cut.columns),
        span_(in_, cut.columns),
        vectors_{reinterpret_cast<const uint4*>(in_ + span_.head),
                 place_ * cut.vectors + static_cast<int>(threadIdx.x),
                 min((place_ + 1) * cut.vectors, span_.vectors)},
        edge_(place_ == 0 ? span_.Edge(static_cast<int>(threadIdx.x)) : -1) {}

  [[nodiscard]] __device__ unsigned row() const { return row_; }

  [[nodiscard]] __device__ Partial Sum() const { return vectors_.Sum(LoadEdge(in_, edge_)); }
  __device__ void Write(const Normalizer<>& normalizer) const {
    vectors_.Write(out_ + span_.head, normalizer);
    StoreEdge(out_, edge_, LoadEdge(in_, edge_), normalizer);
  }

 private:
  unsigned row_;
  int place_;
  const T* in_;
  T* out_;
  Span<T> span_;
  TwiceReadVectors<T, kSpreadThreads, kSpreadVectors> vectors_;
  int edge_;
};

template <class T>
__global__ __launch_bounds__(kSpreadThreads) void SumKernel(const Cut cut, const Group<T> group) {
  __shared__ Partial shared[32];
  const Partial partial = MergeOverBlock(Part<T>(cut, group, blockIdx.x).Sum(), shared);
  if (threadIdx.x == 0) group.partials[blockIdx.x] = partial;
}

// Begins with the last part: the cache may still hold it.
template <class T>
__global__ __launch_bounds__(kSpreadThreads) void WriteKernel(const Cut cut, const Group<T> group) {
  __shared__ Partial shared[32];
  const Part<T> part(cut, group, gridDim.x - 1 - blockIdx.x);
  const Partial* const partials = group.partials + part.row() * cut.parts;
  Partial row = NoPartial();
  for (unsigned i = threadIdx.x; i < cut.parts; i += kSpreadThreads) row = Merge(row, partials[i]);
  part.Write(Normalizer<>(MergeOverBlock(row, shared)));
}

template <class T>
Cut CutOf(const FusedLaunch<T>& launch) {
  const auto over = [](long count, long size) { return (count + size - 1) / size; };
  const long vectors = std::max(1L, launch.columns / long{Span<T>::kVector});
  const long steps = over(over(vectors, kMostPartsOfRow), kSpreadStep);
  return {launch.columns, static_cast<int>(steps * kSpreadStep),
          static_cast<unsigned>(over(vectors, steps * kSpreadStep))};
}

}  // namespace

// Takes as many rows at a time as the workspace has room for: at least 4 GiB of them, or one.
template <class T>
void LaunchSpreadRows(const FusedLaunch<T>& launch) {
  const Cut cut = CutOf(launch);
  const long most_rows = kMostPartsOfGroup / cut.parts;
  auto* const partials = reinterpret_cast<Partial*>(static_cast<std::byte*>(launch.workspace) +
                                                    kSoftmaxPartsWorkspaceBytes);
  static_assert(kMostPartsOfGroup * sizeof(Partial) ==
                kSoftmaxWorkspaceBytes - kSoftmaxPartsWorkspaceBytes);
  for (long row = 0; row < launch.rows; row += most_rows) {
    const Group<T> group{launch.in + row * launch.columns, launch.out + row * launch.columns,
                         partials};
    const auto parts = static_cast<unsigned>(std::min(most_rows, launch.rows - row)) * cut.parts;
    SumKernel<<<parts, kSpreadThreads, 0, launch.stream>>>(cut, group);
    CUDA_CHECK(cudaGetLastError());
    WriteKernel<<<parts, kSpreadThreads, 0, launch.stream>>>(cut, group);
    CUDA_CHECK(cudaGetLastError());
  }
}
template void LaunchSpreadRows(const FusedLaunch<float>&);
template void LaunchSpreadRows(const FusedLaunch<__half>&);
template void LaunchSpreadRows(const FusedLaunch<__nv_bfloat16>&);

}  // namespace overlapbench::softmax
