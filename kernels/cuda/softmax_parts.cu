// The fused softmax's longest rows: parts of rows stream through the shared memory of all SMs.
//
// Rows are cut into parts (softmax_part.cuh). One block per SM takes part after part from a counter
// in device memory, so that the matrix is read in order, by each SM as fast as it can: SMs in the
// larger groups (GPCs) get less bandwidth than others. A block has a ring of slots
// (softmax_ring.cuh). A slot holds a part from its arrival until its results are written. Four
// kinds of warps work on the slots, each at its own pace (softmax_roles.cuh):
//
//   the loader     takes a part for every slot that becomes free and starts copying it there
//   the workers    sum up a part that has arrived, a piece each; and, once the collector has its
//                  row's sum, write the results of their pieces, which is more urgent
//   the publisher  writes a part's maximum and sum to device memory (softmax_sums.cuh)
//   the collector  waits for those of all parts of the row
//
// So memory is read while results are computed and written, and while the SMs that share a row wait
// for each other. A row is read once: its parts stay in their slots.
//
// Waiting: parts are taken in order, and are summed up whether or not rows are complete. A row
// waits only for its own parts. If the slots of the blocks that run together have room for a row,
// which its length usually ensures (kernels/softmax_cut.h), its parts are all taken. Otherwise
// (other kernels, or other launches of this one, hold the SMs) nobody may ever take the last of
// them. So no wait for another block lasts: after some milliseconds a collector leaves its parts of
// the row, which frees their slots. The last block to publish its sums writes what was left: all
// sums are there by then. A launch therefore ends wherever one block runs at a time.

#include <cuda.h>

#include <algorithm>

#include "device/cuda/device_attribute.h"
#include "kernels/cuda/softmax_fused.h"
#include "kernels/cuda/softmax_roles.cuh"

namespace overlapbench {
namespace softmax {
namespace {

constexpr int kBesideRingBytes = 2048;  // at most, of shared memory

// Waits for all warps of the block but the loader's, which ends with the loader: lanes that wait at
// a barrier take turns with the one that loads.
template <class Shape>
__device__ void Meet() {
  asm volatile("barrier.sync 1, %0;" ::"n"(Shape::kThreads - 32) : "memory");
}

template <class T>
__device__ void EndLaunch(const Plan<T>& plan, unsigned tag) {
  plan.workspace->taken_parts = 0;
  plan.workspace->finished_blocks = 0;
  plan.workspace->left_parts = 0;
  plan.workspace->launches = tag;
}

// Called by one thread, once this block has published all its sums and left what it leaves; its
// last results may still be written. The last block to come here returns how many parts were left,
// which it must write; if there are none, it ends the launch.
template <class T>
__device__ unsigned FinishBlock(const Plan<T>& plan, unsigned tag) {
  __threadfence();
  if (atomicAdd(&plan.workspace->finished_blocks, 1U) != gridDim.x - 1) return 0;
  __threadfence();
  const unsigned left = min(__ldcg(&plan.workspace->left_parts), PartsWorkspace::kMostParts);
  if (left == 0) EndLaunch(plan, tag);
  return left;
}

// Writes the parts that were left, one a worker at a time. Called by the last block, once all sums
// are there; with the same sums in the same order, results have the same bits as any other part's.
template <class Shape, class T>
__device__ void WriteLeft(const Plan<T>& plan, unsigned tag, unsigned worker, unsigned count) {
  for (unsigned i = worker; i < count; i += Shape::kWorkers) {
    const Row<T> row(plan, __ldcg(plan.left() + i));
    const Place<T> place(plan, row);
    Partial sum = NoPartial();
    Collect<1>(row.Sums(plan), plan.parts_of_row, tag, kMostLooks, sum);
    const PartNormalizer<T> normalizer(sum);
    for (int v = place.first + Lane(); v < place.count; v += 32) {
      Vectors<T, 1> vector;
      vector.Load(place.vectors + place.start + v, 1, 1);
      vector.Store(place.To(row) + static_cast<long>(v) * Span<T>::kVector, 1, 1, normalizer);
    }
    const int edge = row.Edge(Lane());
    StoreEdge(row.to, edge, LoadEdge(row.start, edge), normalizer);
  }
}

template <class Shape, class T>
__global__ __launch_bounds__(Shape::kThreads) void PartsKernel(const Plan<T> plan) {
#if __CUDA_ARCH__ >= 900  // earlier GPUs have no bulk copies
  extern __shared__ __align__(128) uint4 vectors[];
  __shared__ Slot<Shape, T> slots[kMostSoftmaxSlots];
  __shared__ unsigned left;  // to this block
  static_assert(sizeof(slots) + sizeof(uint4) <= kBesideRingBytes);
  if (threadIdx.x == 0) {
    for (int i = 0; i < plan.slots; ++i) slots[i].Initialize();
    FenceInitialized();
  }
  __syncthreads();
  const Ring<Shape, T> ring{plan, slots, vectors};
  const unsigned tag = __ldcg(&plan.workspace->launches) + 1;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  switch (warp - Shape::kWorkers) {
    case 0:
      if (Lane() == 0) LoadParts(ring);
      return;
    case 1:
      PublishParts(ring, tag);
      break;
    case 2:
      CollectRows(ring, tag);
      if (Lane() == 0) left = FinishBlock(plan, tag);
      break;
    default:
      Worker<Shape, T>(ring, warp).Run();
  }
  Meet<Shape>();
  if (left == 0) return;
  if (warp < Shape::kWorkers) WriteLeft<Shape>(plan, tag, warp, left);
  Meet<Shape>();
  if (threadIdx.x == 0) EndLaunch(plan, tag);
#endif
}

template <class Function>
Function DriverFunction(const char* name) {
  constexpr unsigned kSince = 12040;
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found{};
  const cudaError_t code =
      cudaGetDriverEntryPointByVersion(name, &function, kSince, cudaEnableDefault, &found);
  return code == cudaSuccess ? reinterpret_cast<Function>(function) : nullptr;
}

// How many SMs a stream may use: those of its green context, or all.
long ProcessorsOf(cudaStream_t stream) {
  static const auto green_context_of =
      DriverFunction<decltype(&cuStreamGetGreenCtx)>("cuStreamGetGreenCtx");
  static const auto resource_of =
      DriverFunction<decltype(&cuGreenCtxGetDevResource)>("cuGreenCtxGetDevResource");
  CUgreenCtx context = nullptr;
  CUdevResource resource{};
  if (green_context_of != nullptr && resource_of != nullptr &&
      green_context_of(stream, &context) == CUDA_SUCCESS && context != nullptr &&
      resource_of(context, &resource, CU_DEV_RESOURCE_TYPE_SM) == CUDA_SUCCESS) {
    return resource.sm.smCount;
  }
  return DeviceAttribute(cudaDevAttrMultiProcessorCount);
}

// Shared memory for the slots of a block.
int MostRingBytes() {
  return DeviceAttribute(cudaDevAttrMaxSharedMemoryPerBlockOptin) - kBesideRingBytes;
}

template <class Shape>
constexpr SoftmaxPartShape kShapeOf = {Shape::kPiece, Shape::kWorkers};

template <class Shape, class T>
Plan<T> PlanOf(const FusedLaunch<T>& launch) {
  static_assert(std::ranges::count(kSoftmaxPartShapes, kShapeOf<Shape>) == 1);
  Plan<T> plan{launch.in, launch.out, launch.columns};
  const long row_bytes = launch.columns * static_cast<long>(sizeof(T));
  const bool on_lines =
      (reinterpret_cast<std::uintptr_t>(launch.in) | row_bytes) % (16 * kSoftmaxLineVectors) == 0;
  const SoftmaxCut cut = CutSoftmaxRow(row_bytes, on_lines, kShapeOf<Shape>, MostRingBytes());
  plan.vectors = cut.vectors;
  plan.parts_of_row = cut.parts_of_row;
  plan.slots = cut.slots;
  plan.workspace = static_cast<PartsWorkspace*>(launch.workspace);
  return plan;
}

// Each launch takes as many rows as the workspace has room for: at least 1 GiB of them.
template <class Shape, class T>
void LaunchShape(const FusedLaunch<T>& launch) {
  const auto kernel = PartsKernel<Shape, T>;
  Plan<T> plan = PlanOf<Shape>(launch);
  const int ring_bytes = 16 * plan.vectors * plan.slots;
  CUDA_CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, ring_bytes));
  const auto processors = static_cast<unsigned>(DeviceAttribute(cudaDevAttrMultiProcessorCount));
  const long most_rows = PartsWorkspace::kMostParts / plan.parts_of_row;
  for (long row = 0; row < launch.rows; row += most_rows) {
    plan.in = launch.in + row * launch.columns;
    plan.out = launch.out + row * launch.columns;
    plan.parts = static_cast<unsigned>(std::min(most_rows, launch.rows - row)) * plan.parts_of_row;
    kernel<<<std::min(processors, plan.parts), Shape::kThreads, ring_bytes, launch.stream>>>(plan);
    CUDA_CHECK(cudaGetLastError());
  }
}

// The table has other regimes for float32.
template <class T>
constexpr Kernel<T> kKernels[] = {
    {0, 3, LaunchShape<Shape<3, 16, true>, T>},
    {0, 4, LaunchShape<Shape<4, 16>, T>},
    {0, 5, LaunchShape<Shape<5, 16>, T>},
};
template <>
constexpr Kernel<float> kKernels<float>[2] = {
    {0, 3, LaunchShape<Shape<3, 16, true>, float>},
    {0, 6, LaunchShape<Shape<6, 10>, float>},
};

}  // namespace

template <class T>
void LaunchParts(const FusedLaunch<T>& launch, const SoftmaxRegime& regime) {
  LaunchOneOf(kKernels<T>, launch, regime);
}
template void LaunchParts(const FusedLaunch<float>&, const SoftmaxRegime&);
template void LaunchParts(const FusedLaunch<__half>&, const SoftmaxRegime&);
template void LaunchParts(const FusedLaunch<__nv_bfloat16>&, const SoftmaxRegime&);

}  // namespace softmax

long LongestSoftmaxParts_bytes(cudaStream_t stream) {
  constexpr int kFewestProcessors = 16;
  if (DeviceAttribute(cudaDevAttrComputeCapabilityMajor) < 9 ||
      DeviceAttribute(cudaDevAttrMultiProcessorCount) < kFewestProcessors)
    return 0;
  return LongestSoftmaxParts_bytes(softmax::ProcessorsOf(stream), softmax::MostRingBytes());
}

}  // namespace overlapbench
