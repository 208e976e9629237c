// The fused softmax's longest rows: parts of rows stream through the shared memory of all SMs.
//
// Rows are cut into parts. One block per SM takes part after part from a counter in device memory,
// so that the matrix is read in order, by each SM as fast as it can: SMs in the larger groups
// (GPCs) get less bandwidth than others. A block has a ring of slots. A slot holds a part from its
// arrival until its results are written. Four kinds of warps work on the slots, each at its own
// pace:
//
//   the loader     takes a part for every slot that becomes free and starts copying it there
//   the workers    sum up a part that has arrived, a piece each; and, once the collector has its
//                  row's sum, write the results of their pieces, which is more urgent
//   the publisher  writes a part's maximum and sum to device memory
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
// the row, which frees their slots. The last block to end writes what was left: all sums are there
// by then. A launch therefore ends wherever one block runs at a time.
//
// Alignment: copies keep the row's position relative to 128-byte boundaries, and parts are cut at
// them; shifted copies are slower. The loader takes its first parts one after another. Taken at
// once, each would arrive later, and all SMs would then read and write in step.
//
// Where the SMs hold only two or three rows, memory would idle while a row's last parts arrive and
// its sums meet. So these rows have smaller parts, and a block loads only two at a time: a row's
// last parts then do not compete with the next row's. Workers sum up parts before they write any.
//
// Sources: PTX ISA, "mbarrier", "cp.async.bulk"; "Memory Consistency Model" for 8 bytes that are
// written and read at once.

#include <cuda.h>

#include <algorithm>

#include "device/cuda/device_attribute.h"
#include "kernels/cuda/softmax_fused.h"
#include "kernels/cuda/softmax_row.cuh"
#include "kernels/softmax_cut.h"

namespace overlapbench {
namespace softmax {
namespace {

// How a block works on a part: kWorkers warps with a piece each, of kVectors vectors per lane.
// `kFewRows`: for rows so long that the SMs hold few.
template <int kVectorsOfShape, int kWorkersOfShape, bool kFewRows = false>
struct Shape {
  __device__ static constexpr bool IsForFewRows() { return kFewRows; }
  static constexpr int kVectors = kVectorsOfShape;
  static constexpr int kWorkers = kWorkersOfShape;
  static constexpr int kPiece = 32 * kVectors;          // vectors
  static constexpr int kThreads = 32 * (kWorkers + 3);  // a loader, a publisher, a collector
};

constexpr int kBesideRingBytes = 2048;  // at most, of shared memory

// The beginning of kFused's workspace.
struct SoftmaxWorkspace {
  static constexpr unsigned kMostParts = 65535;
  // A float each in the lower half, and the number of the launch that wrote it in the upper half.
  struct Sum {
    std::uint64_t max;
    std::uint64_t sum;
  };
  unsigned launches;     // that have ended
  unsigned taken_parts;  // of the current one
  unsigned finished_blocks;
  unsigned left_parts;  // the last block to end sets these three back to 0
  alignas(16) Sum sums[kMostParts];
};
static_assert(sizeof(SoftmaxWorkspace) == kSoftmaxPartsWorkspaceBytes);
// The numbers of the parts that were left follow it.
static_assert(SoftmaxWorkspace::kMostParts * sizeof(unsigned) <=
              kSoftmaxWorkspaceBytes - kSoftmaxPartsWorkspaceBytes);

// One launch, the same for all blocks.
template <class T>
struct Plan {
  const T* in;
  T* out;
  int columns;
  unsigned parts;  // of all rows
  unsigned parts_of_row;
  int vectors;  // of a part, its last one in a row may have less
  int slots;
  SoftmaxWorkspace* workspace;

  [[nodiscard]] __device__ unsigned* left() const {
    return reinterpret_cast<unsigned*>(workspace + 1);
  }
};

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
// A barrier in shared memory that counts arrivals and bytes. Its phases alternate.
class Barrier {
 public:
  __device__ void Initialize(int arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(address()), "r"(arrivals)
                 : "memory");
  }
  __device__ void Arrive() {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(address()) : "memory");
  }
  // Whether the phase of this parity has ended. One instruction tests for the whole warp, so all
  // its lanes get the same result.
  __device__ bool Test(int parity) {
    unsigned ended = 0;
    asm volatile(
        "{\n"
        ".reg .pred ended;\n"
        "mbarrier.test_wait.parity.shared::cta.b64 ended, [%1], %2;\n"
        "selp.u32 %0, 1, 0, ended;\n"
        "}"
        : "=r"(ended)
        : "r"(address()), "r"(parity)
        : "memory");
    return ended != 0;
  }
  // Waits for the end of the phase.
  __device__ void Wait(int parity) {
    asm volatile(
        "{\n"
        ".reg .pred ended;\n"
        "again: mbarrier.try_wait.parity.shared::cta.b64 ended, [%0], %1;\n"
        "@!ended bra again;\n"
        "}" ::"r"(address()),
        "r"(parity)
        : "memory");
  }
  // Waits for it briefly, and leaves the issue slots to other warps meanwhile.
  __device__ void Rest(int parity) {
    constexpr unsigned kMost_ns = 40;
    asm volatile(
        "{\n"
        ".reg .pred ended;\n"
        "mbarrier.try_wait.parity.shared::cta.b64 ended, [%0], %1, %2;\n"
        "}" ::"r"(address()),
        "r"(parity), "r"(kMost_ns)
        : "memory");
  }
  __device__ void CopyIn(uint4* to, const uint4* from, int bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(address()),
                 "r"(bytes)
                 : "memory");
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, "
        "[%3];" ::"r"(SharedAddress(to)),
        "l"(from), "r"(bytes), "r"(address())
        : "memory");
  }

 private:
  __device__ static std::uint32_t SharedAddress(const void* data) {
    return static_cast<std::uint32_t>(__cvta_generic_to_shared(data));
  }
  [[nodiscard]] __device__ std::uint32_t address() const { return SharedAddress(&bits_); }
  std::uint64_t bits_;
};

// A part in its slot: its vectors from `first` to before `count`.
template <class T>
struct Part {
  unsigned number;  // over all rows; Plan::parts and above mean that no part follows
  int first;
  int count;
  T* to;  // where the results of the slot's vector 0 go, or would go
};

template <class Shape, class T>
struct Shared {
  Barrier filled[kMostSoftmaxSlots];     // by the loader
  Barrier summed[kMostSoftmaxSlots];     // by all workers
  Barrier published[kMostSoftmaxSlots];  // by the publisher
  Barrier collected[kMostSoftmaxSlots];  // by the collector
  Barrier emptied[kMostSoftmaxSlots];    // by all workers
  Part<T> parts[kMostSoftmaxSlots];
  Partial of_workers[kMostSoftmaxSlots][Shape::kWorkers];
  Partial of_row[kMostSoftmaxSlots];
  bool is_left[kMostSoftmaxSlots];  // of_row is not known
  bool is_last;                     // of the blocks to end
};

// A place in the ring, and the parity of its barriers' current phase.
struct Cursor {
  unsigned turn = 0;
  int slot = 0;
  int parity = 0;
  __device__ void Advance(int slots) {
    ++turn;
    if (++slot < slots) return;
    slot = 0;
    parity ^= 1;
  }
};

// The row of a part.
template <class T>
struct Row {
  unsigned number;
  unsigned part;  // which of its parts
  const T* start;
  T* to;
  Span<T> span;

  __device__ Row(const Plan<T>& plan, unsigned part_number)
      : number(part_number / plan.parts_of_row),
        part(part_number - number * plan.parts_of_row),
        start(plan.in + static_cast<long>(number) * plan.columns),
        to(plan.out + static_cast<long>(number) * plan.columns),
        span(start, plan.columns) {}
  // Where the parts' maxima and sums meet.
  [[nodiscard]] __device__ SoftmaxWorkspace::Sum* Sums(const Plan<T>& plan) const {
    return plan.workspace->sums + number * plan.parts_of_row;
  }
  // The edges go with the first part.
  [[nodiscard]] __device__ int Edge(int lane) const { return part == 0 ? span.Edge(lane) : -1; }
};

// Where a part's vectors are in memory.
template <class T>
struct Place {
  const uint4* vectors;  // the row's
  int start;             // vector 0 of the part, among the row's
  int first;             // of the part: those before it are another part's, or none
  int count;

  __device__ Place(const Plan<T>& plan, const Row<T>& row)
      : vectors(reinterpret_cast<const uint4*>(row.start + row.span.head)) {
    const auto address = reinterpret_cast<std::uintptr_t>(vectors);
    const int line = static_cast<int>(address / 16 % kSoftmaxLineVectors);
    start = static_cast<int>(row.part) * plan.vectors - line;
    first = row.part == 0 ? line : 0;
    count = min(plan.vectors, row.span.vectors - start);
  }
  // Where the result of vector 0 goes, or would go.
  [[nodiscard]] __device__ T* To(const Row<T>& row) const {
    return row.to + row.span.head + static_cast<long>(start) * Span<T>::kVector;
  }
};

// Starts copying a part; returns false if there was none left.
template <class Shape, class T>
__device__ bool Load(const Plan<T>& plan, Shared<Shape, T>& shared, uint4* ring, int slot,
                     unsigned number) {
  if (number >= plan.parts) {
    shared.parts[slot].number = number;
    shared.filled[slot].Arrive();
    return false;
  }
  const Row<T> row(plan, number);
  const Place<T> place(plan, row);
  shared.parts[slot] = {number, place.first, place.count, place.To(row)};
  if (place.first < place.count) {
    shared.filled[slot].CopyIn(ring + slot * plan.vectors + place.first,
                               place.vectors + place.start + place.first,
                               16 * (place.count - place.first));
  } else {
    shared.filled[slot].Arrive();
  }
  return true;
}

template <class Shape, class T>
__device__ void LoadParts(const Plan<T>& plan, Shared<Shape, T>& shared, uint4* ring) {
  constexpr unsigned kMostInFlight = 2;
  Cursor at;
  Cursor arriving;
  for (bool more = true; more; at.Advance(plan.slots)) {
    if (Shape::IsForFewRows() && at.turn - arriving.turn == kMostInFlight) {
      shared.filled[arriving.slot].Wait(arriving.parity);
      arriving.Advance(plan.slots);
    }
    // A slot becomes free when its row is complete. In the first round these waits end at once.
    shared.collected[at.slot].Wait(at.parity ^ 1);
    const unsigned number = atomicAdd(&plan.workspace->taken_parts, 1U);
    shared.emptied[at.slot].Wait(at.parity ^ 1);
    more = Load(plan, shared, ring, at.slot, number);
  }
}

// The worker's piece of a part. It changes every turn, because a part may lack the last pieces.
template <class Shape>
__device__ __forceinline__ int PieceOf(int worker, const Cursor& at) {
  constexpr unsigned kStep = 5;
  return static_cast<int>((static_cast<unsigned>(worker) + kStep * at.turn) % Shape::kWorkers);
}

template <class T>
using PartNormalizer = Normalizer<typename Format<T>::FastExponentials>;

template <class Shape, class T>
__device__ void SumPiece(const Part<T>& part, const uint4* slot, int piece, Partial* sum) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int start = piece * Shape::kPiece;
  Partial partial = NoPartial();
  if (start < part.count) {
    Vectors<T, Shape::kVectors> vectors;
    vectors.Load(slot + start + lane, part.count - start - lane, 32, part.first - start - lane);
    partial.max = MaxOverLanes<32>(vectors.Max());
    partial.sum =
        SumOverLanes<32>(vectors.Sum(typename Format<T>::FastExponentials(Reference(partial.max))));
  }
  if (lane == 0) *sum = partial;
}

template <class Shape, class T>
__device__ void StorePiece(const Part<T>& part, const uint4* slot, int piece,
                           const PartNormalizer<T>& normalizer, Barrier& emptied) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int start = piece * Shape::kPiece;
  const int first = part.first - start - lane;
  const int count = part.count - start - lane;
  const bool exists = start < part.count;
  T* to = part.to + static_cast<long>(start + lane) * Span<T>::kVector;
  Vectors<T, Shape::kVectors> vectors;
  if (exists) vectors.Load(slot + start + lane, count, 32, first);
  __syncwarp();  // all lanes have read what they need of the slot
  if (lane == 0) emptied.Arrive();
  if (exists) vectors.Store(to, count, 32, normalizer, first);
}

template <class Shape, class T>
__device__ void Work(const Plan<T>& plan, Shared<Shape, T>& shared, const uint4* ring, int worker) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  Cursor summing;
  Cursor storing;
  bool more = true;
  // Both return whether there was something to do.
  const auto store = [&] {
    const int slot = storing.slot;
    if (storing.turn == summing.turn || !shared.collected[slot].Test(storing.parity)) return false;
    if (shared.is_left[slot]) {
      __syncwarp();  // all lanes have seen it
      if (lane == 0) shared.emptied[slot].Arrive();
    } else {
      StorePiece<Shape>(shared.parts[slot], ring + slot * plan.vectors,
                        PieceOf<Shape>(worker, storing), PartNormalizer<T>(shared.of_row[slot]),
                        shared.emptied[slot]);
    }
    storing.Advance(plan.slots);
    return true;
  };
  const auto sum = [&] {
    const int slot = summing.slot;
    const bool has_slot = static_cast<int>(summing.turn - storing.turn) < plan.slots;
    if (!more || !has_slot || !shared.filled[slot].Test(summing.parity)) return false;
    more = shared.parts[slot].number < plan.parts;
    if (!more) return true;
    SumPiece<Shape>(shared.parts[slot], ring + slot * plan.vectors, PieceOf<Shape>(worker, summing),
                    &shared.of_workers[slot][worker]);
    if (lane == 0) shared.summed[slot].Arrive();
    summing.Advance(plan.slots);
    return true;
  };
  while (more || storing.turn != summing.turn) {
    if (Shape::IsForFewRows() ? sum() || store() : store() || sum()) continue;
    if (storing.turn != summing.turn) {
      shared.collected[storing.slot].Rest(storing.parity);
    } else {
      shared.filled[summing.slot].Rest(summing.parity);
    }
  }
}

// Half of a part's sum in device memory: a float, and the tag of the launch that wrote it. The tag
// tells a reader whether the sum is there, so nothing needs to be reset.
__device__ __forceinline__ std::uint64_t Tagged(float value, unsigned tag) {
  return static_cast<std::uint64_t>(tag) << 32 | __float_as_uint(value);
}
__device__ __forceinline__ bool HasTag(std::uint64_t half, unsigned tag) {
  return half >> 32 == tag;
}
__device__ __forceinline__ float ValueOf(std::uint64_t half) {
  return __uint_as_float(static_cast<unsigned>(half));
}

__device__ __forceinline__ void Publish(SoftmaxWorkspace::Sum* sum, const Partial& partial,
                                        unsigned tag) {
  asm volatile("st.relaxed.gpu.global.v2.b64 [%0], {%1, %2};" ::"l"(sum),
               "l"(Tagged(partial.max, tag)), "l"(Tagged(partial.sum, tag))
               : "memory");
}
__device__ __forceinline__ SoftmaxWorkspace::Sum Look(const SoftmaxWorkspace::Sum* sum) {
  SoftmaxWorkspace::Sum seen;
  asm volatile("ld.relaxed.gpu.global.v2.b64 {%0, %1}, [%2];"
               : "=l"(seen.max), "=l"(seen.sum)
               : "l"(sum)
               : "memory");
  return seen;
}

// A look takes a trip to memory, so these are some milliseconds.
constexpr unsigned kMostLooks = 1U << 13;

// Waits for the sums of all parts of a row, and merges them. Called by a whole warp. Returns false
// if one of them was not there after so many looks at it. A lane looks at kLooks of them before it
// waits for the first, since a trip to memory for each would delay long rows.
template <unsigned kLooks>
__device__ __forceinline__ bool Collect(const SoftmaxWorkspace::Sum* sums, unsigned parts,
                                        unsigned tag, unsigned most_looks, Partial& row) {
  Partial merged = NoPartial();
  unsigned looks = 0;
  for (unsigned first = threadIdx.x % 32; first < parts && looks < most_looks;
       first += 32 * kLooks) {
    SoftmaxWorkspace::Sum seen[kLooks];
#pragma unroll
    for (unsigned i = 0; i < kLooks; ++i)
      if (first + 32 * i < parts) seen[i] = Look(sums + first + 32 * i);
#pragma unroll
    for (unsigned i = 0; i < kLooks; ++i) {
      if (first + 32 * i >= parts) break;
      while ((!HasTag(seen[i].max, tag) || !HasTag(seen[i].sum, tag)) && ++looks < most_looks)
        seen[i] = Look(sums + first + 32 * i);
      merged = Merge(merged, {ValueOf(seen[i].max), ValueOf(seen[i].sum)});
    }
  }
  __syncwarp();
  row = MergeOverWarp(merged);
  return __all_sync(0xFFFFFFFFU, looks < most_looks);
}

// Calls visit(row, cursor) for each part of the block, once it has arrived.
template <class Shape, class T, class Visit>
__device__ void VisitParts(const Plan<T>& plan, Shared<Shape, T>& shared, const Visit& visit) {
  for (Cursor at;; at.Advance(plan.slots)) {
    shared.filled[at.slot].Wait(at.parity);
    const unsigned number = shared.parts[at.slot].number;
    if (number >= plan.parts) return;
    visit(Row<T>(plan, number), at);
  }
}

// Adds the edges too, because they are not copied to the slot.
template <class Shape, class T>
__device__ void PublishParts(const Plan<T>& plan, Shared<Shape, T>& shared, unsigned tag) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  VisitParts(plan, shared, [&](const Row<T>& row, const Cursor& at) {
    const Partial edge = {LoadEdge(row.start, row.Edge(lane)), 1};
    shared.summed[at.slot].Wait(at.parity);
    const Partial of_worker =
        lane < Shape::kWorkers ? shared.of_workers[at.slot][lane] : NoPartial();
    const Partial sum = MergeOverWarp(Merge(of_worker, edge));
    if (lane == 0) {
      Publish(row.Sums(plan) + row.part, sum, tag);
      shared.published[at.slot].Arrive();
    }
  });
}

template <class Shape, class T>
__device__ void CollectRows(const Plan<T>& plan, Shared<Shape, T>& shared, unsigned tag) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  unsigned collected = plan.parts;  // the row of `sum`; at first a number that no row has
  Partial sum = NoPartial();
  bool complete = false;
  unsigned most_looks = kMostLooks;
  VisitParts(plan, shared, [&](const Row<T>& row, const Cursor& at) {
    const int edge = row.Edge(lane);
    const float edge_value = LoadEdge(row.start, edge);
    if (row.number != collected) {
      complete = Collect<8>(row.Sums(plan), plan.parts_of_row, tag, most_looks, sum);
      // Where one row was left, others will be.
      most_looks = complete ? kMostLooks : max(most_looks / 2, 64U);
    }
    collected = row.number;
    if (!complete) {
      // Its slot will be used again, so its own sum must be out.
      shared.published[at.slot].Wait(at.parity);
      if (lane == 0) {
        const unsigned left = atomicAdd(&plan.workspace->left_parts, 1U);
        if (left < SoftmaxWorkspace::kMostParts)
          plan.left()[left] = row.number * plan.parts_of_row + row.part;
      }
    }
    if (lane == 0) {
      shared.of_row[at.slot] = sum;
      shared.is_left[at.slot] = !complete;
      shared.collected[at.slot].Arrive();
    }
    if (complete) StoreEdge(row.to, edge, edge_value, PartNormalizer<T>(sum));
  });
}

// Writes the parts that were left, one a warp at a time. Called by the last block, once all sums
// are there; with the same sums in the same order, results have the same bits as any other part's.
template <class T>
__device__ void WriteLeft(const Plan<T>& plan, unsigned tag) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const unsigned count = min(__ldcg(&plan.workspace->left_parts), SoftmaxWorkspace::kMostParts);
  for (unsigned i = threadIdx.x / 32; i < count; i += blockDim.x / 32) {
    const Row<T> row(plan, __ldcg(plan.left() + i));
    const Place<T> place(plan, row);
    Partial sum = NoPartial();
    Collect<1>(row.Sums(plan), plan.parts_of_row, tag, kMostLooks, sum);
    const PartNormalizer<T> normalizer(sum);
    for (int v = place.first + lane; v < place.count; v += 32) {
      Vectors<T, 1> vector;
      vector.Load(place.vectors + place.start + v, 1, 1);
      vector.Store(place.To(row) + static_cast<long>(v) * Span<T>::kVector, 1, 1, normalizer);
    }
    const int edge = row.Edge(lane);
    StoreEdge(row.to, edge, LoadEdge(row.start, edge), normalizer);
  }
}

// Whether all other blocks have ended; their sums are then there. Called by the whole block.
template <class Shape, class T>
__device__ bool IsLast(const Plan<T>& plan, Shared<Shape, T>& shared) {
  __syncthreads();  // the block has published what it took
  if (threadIdx.x == 0) {
    __threadfence();
    shared.is_last = atomicAdd(&plan.workspace->finished_blocks, 1U) == gridDim.x - 1;
    __threadfence();
  }
  __syncthreads();
  return shared.is_last;
}

#endif

template <class Shape, class T>
__global__ __launch_bounds__(Shape::kThreads) void PartsKernel(const Plan<T> plan) {
#if __CUDA_ARCH__ >= 900
  extern __shared__ __align__(128) uint4 ring[];
  __shared__ Shared<Shape, T> shared;
  static_assert(sizeof(shared) <= kBesideRingBytes);
  if (threadIdx.x == 0) {
    for (int slot = 0; slot < plan.slots; ++slot) {
      shared.filled[slot].Initialize(1);
      shared.summed[slot].Initialize(Shape::kWorkers);
      shared.published[slot].Initialize(1);
      shared.collected[slot].Initialize(1);
      shared.emptied[slot].Initialize(Shape::kWorkers);
    }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  __syncthreads();
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const unsigned tag = __ldcg(&plan.workspace->launches) + 1;
  switch (warp - Shape::kWorkers) {
    case 0:
      if (threadIdx.x % 32 == 0) LoadParts(plan, shared, ring);
      break;
    case 1:
      PublishParts(plan, shared, tag);
      break;
    case 2:
      CollectRows(plan, shared, tag);
      break;
    default:
      Work(plan, shared, ring, warp);
  }
  if (!IsLast(plan, shared)) return;
  WriteLeft(plan, tag);
  __syncthreads();
  if (threadIdx.x == 0) {
    plan.workspace->taken_parts = 0;
    plan.workspace->finished_blocks = 0;
    plan.workspace->left_parts = 0;
    plan.workspace->launches = tag;
  }
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
  plan.workspace = static_cast<SoftmaxWorkspace*>(launch.workspace);
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
  const long most_rows = SoftmaxWorkspace::kMostParts / plan.parts_of_row;
  for (long row = 0; row < launch.rows; row += most_rows) {
    plan.in = launch.in + row * launch.columns;
    plan.out = launch.out + row * launch.columns;
    plan.parts = static_cast<unsigned>(std::min(most_rows, launch.rows - row)) * plan.parts_of_row;
    kernel<<<std::min(processors, plan.parts), Shape::kThreads, ring_bytes, launch.stream>>>(plan);
    CUDA_CHECK(cudaGetLastError());
  }
}

template <class T>
constexpr Kernel<T> kKernels[] = {
    {0, 3, LaunchShape<Shape<3, 16, true>, T>},
    {0, 4, LaunchShape<Shape<4, 16>, T>},
    {0, 5, LaunchShape<Shape<5, 16>, T>},
    {0, 6, LaunchShape<Shape<6, 10>, T>},
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
