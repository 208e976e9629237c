// What attention's kernels on tensor cores share, forward and backward: tiles in shared memory,
// their products with mma.sync, and an online softmax.
//
// A block of eight warps has 128 rows of one head, 16 a warp, and goes over the other side's rows
// in tiles of 64. In the forward pass the rows are queries and the tiles keys and values.
//
// In shared memory, a row of 128 elements is 16 chunks of 16 bytes, and chunk c of row r lies where
// c ^ (r mod 8) would: eight rows of one column of chunks, as ldmatrix reads them, are in all banks
// once.
//
// The fragments of mma.m16n8k16 are those of the PTX ISA: with g = lane / 4 and t = lane mod 4, a
// thread has rows g and g + 8 of the first operand and of the result, and columns 2t and 2t + 1 of
// every eight.
#pragma once

#include <cuda_bf16.h>

#include <cstdint>

#include "kernels/attention.h"
#include "kernels/cuda/softmax_format.cuh"

namespace overlapbench::attention {

constexpr int kDim = kAttentionDim;
constexpr int kWarps = 8;
constexpr int kThreads = 32 * kWarps;
constexpr int kQueries = 16 * kWarps;  // of a block
constexpr int kKeys = 64;              // of a tile
constexpr int kChunks = kDim / 8;      // of 16 bytes, in a row
constexpr int kRowBytes = 2 * kDim;
constexpr int kTileBytes = kKeys * kRowBytes;
constexpr int kStageBytes = 2 * kTileBytes;  // keys, then values

// A 2×2 group of 8×8 matrices, or 16×16 elements: a register of each matrix.
struct Fragment {
  std::uint32_t x[4];
};

__device__ __forceinline__ std::uint32_t AddressOf(std::uint32_t tile, int row, int chunk) {
  return tile + row * kRowBytes + ((chunk ^ (row & 7)) << 4);
}

__device__ __forceinline__ Fragment LoadFragment(std::uint32_t address) {
  Fragment f;
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(f.x[0]), "=r"(f.x[1]), "=r"(f.x[2]), "=r"(f.x[3])
               : "r"(address)
               : "memory");
  return f;
}

__device__ __forceinline__ Fragment LoadTransposed(std::uint32_t address) {
  Fragment f;
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(f.x[0]), "=r"(f.x[1]), "=r"(f.x[2]), "=r"(f.x[3])
               : "r"(address)
               : "memory");
  return f;
}

// sum (16×8) += a (16×16) · b (16×8)
__device__ __forceinline__ void MultiplyAdd(float (&sum)[4], const Fragment& a, std::uint32_t b0,
                                            std::uint32_t b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
      : "r"(a.x[0]), "r"(a.x[1]), "r"(a.x[2]), "r"(a.x[3]), "r"(b0), "r"(b1));
}

// Starts copying `kRows` rows to shared memory, by all threads of the block.
template <int kRows>
__device__ __forceinline__ void CopyRows(std::uint32_t tile, const __nv_bfloat16* from,
                                         long stride) {
  static_assert(kRows * kChunks % kThreads == 0);
#pragma unroll
  for (int i = 0; i < kRows * kChunks / kThreads; ++i) {
    const int index = i * kThreads + static_cast<int>(threadIdx.x);
    const int row = index / kChunks;
    const int chunk = index % kChunks;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;"
                 :
                 : "r"(AddressOf(tile, row, chunk)), "l"(from + row * stride + chunk * 8)
                 : "memory");
  }
}

// Waits until this thread's copies have arrived.
__device__ __forceinline__ void AwaitCopies() { asm volatile("cp.async.wait_all;" ::: "memory"); }

using Results = float[kDim / 8][4];

// A warp's state of its 16 queries. Index 0 is the thread's row g, index 1 its row g + 8.
struct State {
  Results results = {};
  float max[2] = {softmax::MinusInfinity(), softmax::MinusInfinity()};
  float sum[2] = {};  // of the thread's own columns
};

using Scores = float[kKeys / 8][4];

// Columns 16k … 16k + 15 of 16 rows, from row `first` of a tile on.
__device__ __forceinline__ Fragment LoadRows(std::uint32_t tile, int first, int k, int lane) {
  return LoadFragment(AddressOf(tile, first + (lane & 15), 2 * k + (lane >> 4)));
}

// Adds what columns 16k … 16k + 15 of the queries and keys contribute.
__device__ __forceinline__ void MultiplyByKeys(Scores& scores, const Fragment& queries, int k,
                                               std::uint32_t keys, int lane) {
  // Matrices 0 and 1 are the two halves of 16 columns for eight keys, 2 and 3 for the next eight.
  const int row = (lane >> 4) * 8 + (lane & 7);
  const int half = lane >> 3 & 1;
#pragma unroll
  for (int n = 0; n < kKeys / 16; ++n) {
    const Fragment b = LoadFragment(AddressOf(keys, n * 16 + row, 2 * k + half));
    MultiplyAdd(scores[2 * n], queries, b.x[0], b.x[1]);
    MultiplyAdd(scores[2 * n + 1], queries, b.x[2], b.x[3]);
  }
}

// Turns scores into exponentials of their distance from the new maximum.
__device__ __forceinline__ void Exponentiate(Scores& scores, State& state, float exponent) {
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    float max = state.max[r];
#pragma unroll
    for (const auto& s : scores) max = fmaxf(max, fmaxf(s[2 * r], s[2 * r + 1]));
    max = softmax::MaxOverLanes<4>(max);  // of the four threads that share the row
    const float correction = softmax::Exponential2((state.max[r] - max) * exponent);
    const float offset = max * exponent;
    float sum = 0;
#pragma unroll
    for (auto& s : scores) {
      s[2 * r] = softmax::Exponential2(fmaf(s[2 * r], exponent, -offset));
      s[2 * r + 1] = softmax::Exponential2(fmaf(s[2 * r + 1], exponent, -offset));
      sum += s[2 * r] + s[2 * r + 1];
    }
    state.max[r] = max;
    state.sum[r] = state.sum[r] * correction + sum;
#pragma unroll
    for (auto& result : state.results) {
      result[2 * r] *= correction;
      result[2 * r + 1] *= correction;
    }
  }
}

__device__ __forceinline__ std::uint32_t Rounded(float low, float high) {
  return BitCast<std::uint32_t>(__floats2bfloat162_rn(low, high));
}

// The second product uses the probabilities where the first left them, in a thread's registers.
__device__ __forceinline__ void MultiplyByValues(Results& results, const Scores& scores,
                                                 std::uint32_t values, int lane) {
  // Matrices 0 and 1 are 16 keys for eight columns, 2 and 3 for the next eight.
  const int row = lane & 15;
  const int half = lane >> 4;
#pragma unroll
  for (int k = 0; k < kKeys / 16; ++k) {
    const auto& left = scores[2 * k];
    const auto& right = scores[2 * k + 1];
    const Fragment a{{Rounded(left[0], left[1]), Rounded(left[2], left[3]),
                      Rounded(right[0], right[1]), Rounded(right[2], right[3])}};
#pragma unroll
    for (int n = 0; n < kDim / 16; ++n) {
      const Fragment b = LoadTransposed(AddressOf(values, k * 16 + row, 2 * n + half));
      MultiplyAdd(results[2 * n], a, b.x[0], b.x[1]);
      MultiplyAdd(results[2 * n + 1], a, b.x[2], b.x[3]);
    }
  }
}

// Stores the results times a factor for each row. `to` is the thread's first element in the warp's
// first row.
__device__ __forceinline__ void StoreResults(const Results& results, const float (&factors)[2],
                                             __nv_bfloat16* to, long stride) {
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    auto* row = reinterpret_cast<std::uint32_t*>(to + r * 8 * stride);
#pragma unroll
    for (int n = 0; n < kDim / 8; ++n)
      row[n * 4] = Rounded(results[n][2 * r] * factors[r], results[n][2 * r + 1] * factors[r]);
  }
}

// The rows of one head that a block has.
struct HeadRows {
  long head;
  long first_token;  // of the sequence
  long first_row;    // token of the block's first row

  __device__ HeadRows(long heads, long sequence) {
    const long row = static_cast<long>(blockIdx.x) * kQueries;
    head = row / sequence % heads;
    first_token = row / sequence / heads * sequence;
    first_row = first_token + row % sequence;
  }
};

}  // namespace overlapbench::attention
