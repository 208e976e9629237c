// The fused softmax's longest rows: persistent clusters through whose shared memory rows stream.
//
// A row is shared among the blocks of a cluster (of one block, where a row fits one). In each block
// one thread, the loader, copies the block's share of row after row into a ring of chunks, as far
// ahead as the ring has room, while the other threads, the workers, go over a share twice: once as
// its chunks arrive, for the maximum and the sum, and, after the blocks have told each other
// theirs, once to write the results and give the chunks back. So memory is read while results are
// computed and written. A row is read once: its share stays in the ring between the two times.
//
// A cluster's first row is the one of its number, whose loads need no other block and so begin at
// once. Every next row it takes from a counter in device memory, since some clusters get less
// bandwidth than others: those in the larger groups of SMs (GPCs). The first block's loader takes
// it and tells the others.
//
// An SM holds one block, or two of half the size, whose computing and waiting alternate.
//
// Sources: PTX ISA, "mbarrier", "cp.async.bulk", "st.async". Messages between blocks are st.async:
// 8 bytes that arrive together with the count that the receiver's barrier waits for.

#include <cooperative_groups.h>

#include "device/cuda/cuda_check.h"
#include "kernels/cuda/softmax_fused.h"
#include "kernels/cuda/softmax_row.cuh"

namespace overlapbench {
namespace softmax {
namespace {

constexpr int kVectors = 4;  // a worker's, of a chunk
constexpr int kSlots = 7;    // chunks: 224 KiB of the 227 that the blocks of an SM may have

constexpr int kMostWorkers = 512;

// The sizes of a block of which an SM holds kTwins.
template <int kTwins>
struct Block {
  static constexpr int kAnSm = kTwins;
  static constexpr int kWorkers = kMostWorkers / kTwins;
  static constexpr int kThreads = kWorkers + 32;  // the loader is alone in its warp
  static constexpr int kChunk = kVectors * kWorkers;
  static constexpr int kRingBytes = kSlots * kChunk * 16;
};
[[maybe_unused]] constexpr int kMostBlocks = 8;
// A loader is ahead of its workers by kSlots rows at most, each at least one chunk, and workers by
// less than two rows ahead of those of another block: a row's message has been read long before
// its place is used again.
constexpr int kMessages = 16;
static_assert(kMessages > kSlots + 2);

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
__device__ __forceinline__ std::uint32_t SharedAddress(const void* data) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(data));
}

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
  __device__ void ArriveAndExpect(int bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(address()),
                 "r"(bytes)
                 : "memory");
  }
  // Waits for the end of the phase of this parity.
  __device__ void Wait(int parity) {
    asm volatile(
        "{\n"
        ".reg .pred done;\n"
        "again: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
        "@!done bra again;\n"
        "}" ::"r"(address()),
        "r"(parity)
        : "memory");
  }
  __device__ void CopyIn(uint4* to, const uint4* from, int bytes) {
    ArriveAndExpect(bytes);
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, "
        "[%3];" ::"r"(SharedAddress(to)),
        "l"(from), "r"(bytes), "r"(address())
        : "memory");
  }
  // Writes `value` to `to` of block `rank`, and counts it at that block's instance of this barrier.
  __device__ void Send(void* to, int rank, std::uint64_t value) {
    asm volatile(
        "{\n"
        ".reg .b32 to, barrier;\n"
        "mapa.shared::cluster.u32 to, %0, %3;\n"
        "mapa.shared::cluster.u32 barrier, %2, %3;\n"
        "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.b64 [to], %1, [barrier];\n"
        "}" ::"r"(SharedAddress(to)),
        "l"(value), "r"(address()), "r"(rank)
        : "memory");
  }

 private:
  [[nodiscard]] __device__ std::uint32_t address() const { return SharedAddress(&bits_); }
  std::uint64_t bits_;
};

// The two halves of a barrier of all threads of the cluster.
__device__ __forceinline__ void ArriveAtCluster() {
  asm volatile("barrier.cluster.arrive.release;" ::: "memory");
}
__device__ __forceinline__ void WaitForCluster() {
  asm volatile("barrier.cluster.wait.acquire;" ::: "memory");
}

// A position in the ring, and the parity of the phase its barriers are in.
struct Cursor {
  int slot = 0;
  int parity = 0;
  __device__ void Advance() {
    if (++slot < kSlots) return;
    slot = 0;
    parity ^= 1;
  }
};

// What a block shares beside the chunks themselves.
struct Shared {
  Barrier filled[kSlots];
  Barrier emptied[kSlots];
  Barrier told[kMessages];
  std::uint64_t rows[kMessages];
  Barrier met[2];
  Partial of_blocks[2][kMostBlocks];
  Partial of_warps[2][kMostWorkers / 32];
};

template <class T>
struct Problem {
  const T* in;
  T* out;
  long rows;
  int columns;
};

// A block's share of a row.
template <class T>
struct Share {
  Span<T> span;
  int first;  // of its vectors in the row's
  int count;
  __device__ Share(const T* row, int columns, int rank, int blocks) : span(row, columns) {
    const int most = (span.vectors + blocks - 1) / blocks;
    first = rank * most;
    count = min(most, span.vectors - first);
  }
};

// The row that is the cluster's turn `turn`; none is left when it is not below problem.rows.
__device__ __forceinline__ long RowOf(Shared& shared, unsigned turn, int blocks) {
  if (turn == 0) return blockIdx.x / static_cast<unsigned>(blocks);
  const unsigned message = turn - 1;
  shared.told[message % kMessages].Wait(message / kMessages % 2);
  return static_cast<long>(shared.rows[message % kMessages]);
}

// Takes the row of turn `turn`, from 1 on, and tells all blocks. A cluster of one block has nobody
// to send to.
__device__ __forceinline__ void TakeRow(Shared& shared, unsigned turn, int rank, int blocks,
                                        SoftmaxRingCounters* counters) {
  Barrier& told = shared.told[(turn - 1) % kMessages];
  std::uint64_t& message = shared.rows[(turn - 1) % kMessages];
  const auto take = [&] {
    return atomicAdd(&counters->taken_rows, 1U) + gridDim.x / static_cast<unsigned>(blocks);
  };
  if (blocks == 1) {
    message = take();
    told.Arrive();
    return;
  }
  told.ArriveAndExpect(sizeof(message));
  if (rank != 0) return;
  const std::uint64_t row = take();
  for (int receiver = 0; receiver < blocks; ++receiver) told.Send(&message, receiver, row);
}

template <class Block, class T>
__device__ void LoadRows(const Problem<T>& problem, Shared& shared, uint4* ring, int rank,
                         int blocks, SoftmaxRingCounters* counters) {
  Cursor cursor;
  for (unsigned turn = 0;; ++turn) {
    if (turn == 1) WaitForCluster();  // until then nothing leaves the block
    if (turn > 0) TakeRow(shared, turn, rank, blocks, counters);
    const long row = RowOf(shared, turn, blocks);
    if (row >= problem.rows) break;
    const T* start = problem.in + row * problem.columns;
    const Share<T> share(start, problem.columns, rank, blocks);
    const auto* from = reinterpret_cast<const uint4*>(start + share.span.head) + share.first;
    for (int done = 0; done < share.count; done += Block::kChunk) {
      shared.emptied[cursor.slot].Wait(cursor.parity ^ 1);  // the first time round: at once
      shared.filled[cursor.slot].CopyIn(ring + cursor.slot * Block::kChunk, from + done,
                                        16 * min(Block::kChunk, share.count - done));
      cursor.Advance();
    }
  }
  if (rank == 0 &&
      atomicAdd(&counters->finished_clusters, 1U) == gridDim.x / static_cast<unsigned>(blocks) - 1)
    *counters = {0, 0};
}

template <class T>
using RingNormalizer = Normalizer<typename Format<T>::FastExponentials>;

template <class Block, class T>
__device__ Partial PartialOfShare(const Share<T>& share, Shared& shared, const uint4* ring,
                                  Cursor cursor) {
  const int thread = static_cast<int>(threadIdx.x);
  Partial partial = NoPartial();
  for (int done = 0; done < share.count; done += Block::kChunk) {
    shared.filled[cursor.slot].Wait(cursor.parity);
    Vectors<T, kVectors> vectors;
    vectors.Load(ring + cursor.slot * Block::kChunk + thread, share.count - done - thread,
                 Block::kWorkers);
    const float max = fmaxf(partial.max, vectors.Max());
    const float reference = Reference(max);
    partial.sum = partial.sum * Exponential(partial.max - reference) +
                  vectors.Sum(typename Format<T>::FastExponentials(reference));
    partial.max = max;
    cursor.Advance();
  }
  return partial;
}

// The whole row's, from every worker's.
template <class Block>
__device__ __forceinline__ Partial MergeOverCluster(Partial partial, Shared& shared, unsigned turn,
                                                    int rank, int blocks) {
  const int thread = static_cast<int>(threadIdx.x);
  const int lane = thread % 32;
  Partial* of_warps = shared.of_warps[turn % 2];
  Partial* of_blocks = shared.of_blocks[turn % 2];
  partial = MergeOverWarp(partial);
  if (lane == 0) of_warps[thread / 32] = partial;
  asm volatile("bar.sync 1, %0;" ::"n"(Block::kWorkers) : "memory");  // the workers alone
  partial = MergeOverWarp(lane < Block::kWorkers / 32 ? of_warps[lane] : NoPartial());
  if (blocks == 1) return partial;
  Barrier& met = shared.met[turn % 2];
  if (thread == 0) met.ArriveAndExpect(blocks * static_cast<int>(sizeof(Partial)));
  if (thread < blocks) met.Send(&of_blocks[rank], thread, BitCast<std::uint64_t>(partial));
  met.Wait(turn / 2 % 2);
  return MergeOverWarp(lane < blocks ? of_blocks[lane] : NoPartial());
}

template <class Block, class T>
__device__ void StoreShare(T* to, const Share<T>& share, Shared& shared, const uint4* ring,
                           Cursor& cursor, const RingNormalizer<T>& normalizer) {
  const int thread = static_cast<int>(threadIdx.x);
  for (int done = 0; done < share.count; done += Block::kChunk) {
    const int count = share.count - done - thread;
    Vectors<T, kVectors> vectors;
    vectors.Load(ring + cursor.slot * Block::kChunk + thread, count, Block::kWorkers);
    shared.emptied[cursor.slot].Arrive();
    const long first = share.first + done + thread;
    vectors.Store(to + share.span.head + first * Span<T>::kVector, count, Block::kWorkers,
                  normalizer);
    cursor.Advance();
  }
}

template <class Block, class T>
__device__ void WorkOnRows(const Problem<T>& problem, Shared& shared, const uint4* ring, int rank,
                           int blocks) {
  Cursor cursor;
  for (unsigned turn = 0;; ++turn) {
    const long row = RowOf(shared, turn, blocks);
    if (row >= problem.rows) break;
    const T* start = problem.in + row * problem.columns;
    T* to = problem.out + row * problem.columns;
    const Share<T> share(start, problem.columns, rank, blocks);
    const int edge = rank == 0 ? share.span.Edge(static_cast<int>(threadIdx.x)) : -1;
    const float edge_value = LoadEdge(start, edge);  // arrives while the share is gone over
    Partial partial = PartialOfShare<Block>(share, shared, ring, cursor);
    const float max = fmaxf(partial.max, edge_value);
    partial.sum = partial.sum * Exponential(partial.max - Reference(max)) +
                  Exponential(edge_value - Reference(max));
    partial.max = max;
    const RingNormalizer<T> normalizer(
        MergeOverCluster<Block>(partial, shared, turn, rank, blocks));
    StoreShare<Block>(to, share, shared, ring, cursor, normalizer);
    StoreEdge(to, edge, edge_value, normalizer);
  }
}

// By the loader, which then goes ahead; the others wait.
template <class Block>
__device__ __forceinline__ void Initialize(Shared& shared) {
  for (int slot = 0; slot < kSlots; ++slot) {
    shared.filled[slot].Initialize(1);
    shared.emptied[slot].Initialize(Block::kWorkers);
  }
  for (auto& told : shared.told) told.Initialize(1);
  for (auto& met : shared.met) met.Initialize(1);
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
#endif

template <class Block, class T>
__global__ __launch_bounds__(Block::kThreads,
                             Block::kAnSm) void RingKernel(const T* in, T* out, long rows,
                                                           int columns,
                                                           SoftmaxRingCounters* counters) {
#if __CUDA_ARCH__ >= 900
  extern __shared__ __align__(128) uint4 ring[];
  __shared__ Shared shared;
  const auto cluster = cooperative_groups::this_cluster();
  const int rank = static_cast<int>(cluster.block_rank());
  const int blocks = static_cast<int>(cluster.num_blocks());
  const Problem<T> problem{in, out, rows, columns};
  const bool loads = threadIdx.x == Block::kWorkers;
  if (loads) Initialize<Block>(shared);
  ArriveAtCluster();
  if (!loads) WaitForCluster();
  if (threadIdx.x < Block::kWorkers) {
    WorkOnRows<Block>(problem, shared, ring, rank, blocks);
  } else if (loads) {
    LoadRows<Block>(problem, shared, ring, rank, blocks, counters);
  }
  __syncwarp();
  cluster.sync();  // no block may leave while another can still write to it
#endif
}

template <class Block, class T>
void LaunchBlocks(const FusedLaunch<T>& launch, unsigned blocks, SoftmaxRingCounters* counters) {
  const auto kernel = RingKernel<Block, T>;
  CUDA_CHECK(
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, Block::kRingBytes));
  cudaLaunchAttribute cluster{};
  cluster.id = cudaLaunchAttributeClusterDimension;
  cluster.val.clusterDim = {blocks, 1, 1};
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(blocks);
  config.blockDim = dim3(Block::kThreads);
  config.dynamicSmemBytes = Block::kRingBytes;
  config.stream = launch.stream;
  config.attrs = &cluster;
  config.numAttrs = 1;
  int clusters = 0;
  CUDA_CHECK(cudaOccupancyMaxActiveClusters(&clusters, kernel, &config));
  if (clusters == 0) throw Error("no cluster of " + std::to_string(blocks) + " blocks fits here");
  config.gridDim = dim3(blocks * static_cast<unsigned>(std::min<long>(clusters, launch.rows)));
  CUDA_CHECK(cudaLaunchKernelEx(&config, kernel, launch.in, launch.out, launch.rows, launch.columns,
                                counters));
}

}  // namespace

template <class T>
void LaunchRing(const FusedLaunch<T>& launch, const SoftmaxRegime& regime,
                SoftmaxRingCounters* counters) {
  const auto blocks = static_cast<unsigned>(regime.cluster);
  if (regime.twins == 2) return LaunchBlocks<Block<2>>(launch, blocks, counters);
  return LaunchBlocks<Block<1>>(launch, blocks, counters);
}
template void LaunchRing(const FusedLaunch<float>&, const SoftmaxRegime&, SoftmaxRingCounters*);
template void LaunchRing(const FusedLaunch<__half>&, const SoftmaxRegime&, SoftmaxRingCounters*);
template void LaunchRing(const FusedLaunch<__nv_bfloat16>&, const SoftmaxRegime&,
                         SoftmaxRingCounters*);

}  // namespace softmax
}  // namespace overlapbench
