// A thread's share of a row in registers, for the fused softmax: `Vectors` of elements, or
// `KeptVectors`, which turn into exponentials.
//
// Rows of odd length start anywhere. A `Span` says which elements of a row form whole vectors of
// memory, and which few at its two ends, the edges, do not.
// Each edge is read and written by a thread of its own, so that no thread branches for them.
#pragma once

#include <limits>

#include "kernels/cuda/softmax_format.cuh"

namespace overlapbench::softmax {

template <class T>
struct Span {
  static constexpr int kVector = sizeof(uint4) / sizeof(T);  // elements
  static constexpr int kMostEdges = 2 * (kVector - 1);
  int head;  // elements before the first vector
  int vectors;
  int tail;  // elements after the last vector

  __device__ Span(const T* row, int columns) {
    const int past =
        static_cast<int>(reinterpret_cast<std::uintptr_t>(row) % sizeof(uint4) / sizeof(T));
    head = min((kVector - past) % kVector, columns);
    vectors = (columns - head) / kVector;
    tail = columns - head - vectors * kVector;
  }
  // The edge of thread `thread` as an index into the row, or −1. A row has at most kMostEdges
  // edges, and at least as many threads.
  __device__ int Edge(int thread) const {
    if (thread >= head + tail) return -1;
    return thread < head ? thread : thread + vectors * kVector;
  }
};

// Writes a vector. If output and input are not aligned alike, elements are stored one by one.
template <class T>
__device__ __forceinline__ void StoreVector(T* to, bool aligned, const std::uint32_t (&words)[4]) {
  if (aligned) {
    // Without __stwb the compiler does not always store 16 bytes at once.
    __stwb(reinterpret_cast<uint4*>(to), uint4{words[0], words[1], words[2], words[3]});
  } else {
    const T* elements = reinterpret_cast<const T*>(words);
#pragma unroll
    for (int i = 0; i < Span<T>::kVector; ++i) to[i] = elements[i];
  }
}
__device__ __forceinline__ bool IsVectorAddress(const void* to) {
  return reinterpret_cast<std::uintptr_t>(to) % 16 == 0;
}

constexpr int kNoFirst = std::numeric_limits<int>::min();  // a check that the compiler can omit

// kVectors vectors, `stride` vectors apart; those before `first` and from `count` on do not exist.
// Exponentials are computed twice: for the sum, and for the results.
template <class T, int kVectorsOfHeld>
class Vectors {
 public:
  static constexpr int kVectors = kVectorsOfHeld;
  static constexpr bool kHasExponentials = false;

  __device__ void Load(const uint4* from, int count, int stride, int first = kNoFirst) {
    constexpr std::uint32_t kPadding = Format<T>::kMinusInfinities;
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      uint4 vector = {kPadding, kPadding, kPadding, kPadding};
      if (v * stride >= first && v * stride < count) vector = from[v * stride];
      words_[4 * v] = vector.x;
      words_[4 * v + 1] = vector.y;
      words_[4 * v + 2] = vector.z;
      words_[4 * v + 3] = vector.w;
    }
  }

  __device__ float Max() const {
    std::uint32_t max = words_[0];
#pragma unroll
    for (int i = 1; i < kWords; ++i) max = Format<T>::Max(max, words_[i]);
    return Format<T>::MaxOf(max);
  }

  template <class Exponentials>
  __device__ float Sum(const Exponentials& exponentials) const {
    float sums[2] = {0, 0};
#pragma unroll
    for (int i = 0; i < kWords; ++i) AddExponentials<T>(words_[i], exponentials, sums);
    return (sums[0] + sums[1]) * exponentials.correction();
  }

  template <class Exponentials>
  __device__ void Store(T* to, int count, int stride, const Normalizer<Exponentials>& normalizer,
                        int first = kNoFirst) {
    const bool aligned = IsVectorAddress(to);
    ForgetConversions();
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      std::uint32_t words[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) words[i] = Normalize<T>(words_[4 * v + i], normalizer);
      if (v * stride < first || v * stride >= count) continue;
      StoreVector(to + v * stride * Span<T>::kVector, aligned, words);
    }
  }

 protected:
  static constexpr int kWords = 4 * kVectors;
  [[nodiscard]] __device__ std::uint32_t word(int i) const { return words_[i]; }

 private:
  // Makes the compiler believe that the words have changed. Otherwise it would keep the floats that
  // the sum made of 2-byte elements, in twice the registers, instead of converting again.
  __device__ void ForgetConversions() {
#pragma unroll
    for (int i = 0; i < kWords; ++i) asm volatile("" : "+r"(words_[i]));
  }

  std::uint32_t words_[kWords];
};

// The same, but exponentials are computed once and kept as floats. For 2-byte elements that takes
// twice the registers.
template <class T, int kVectorsOfHeld>
class KeptVectors : private Vectors<T, kVectorsOfHeld> {
  using Base = Vectors<T, kVectorsOfHeld>;

 public:
  static constexpr int kVectors = kVectorsOfHeld;
  static constexpr bool kHasExponentials = true;
  using Base::Load;
  using Base::Max;

  template <class Exponentials>
  __device__ float Sum(const Exponentials& exponentials) {
    float sums[2] = {0, 0};
#pragma unroll
    for (int i = 0; i < Base::kWords; ++i) {
      Format<T>::Unpack(Base::word(i), values_[i]);
#pragma unroll
      for (int j = 0; j < kPerWord; ++j) {
        values_[i][j] = exponentials(values_[i][j]);
        sums[j] += values_[i][j];
      }
    }
    correction_ = exponentials.correction();
    return (sums[0] + sums[1]) * correction_;
  }

  // Call after Sum, whose exponentials are relative to this thread's maximum.
  __device__ void Store(T* to, int count, int stride, float result_of_max) {
    const bool aligned = IsVectorAddress(to);
    const float factor = result_of_max * correction_;
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      std::uint32_t words[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
#pragma unroll
        for (float& value : values_[4 * v + i]) value *= factor;
        words[i] = Format<T>::Pack(values_[4 * v + i]);
      }
      if (v * stride < count) StoreVector(to + v * stride * Span<T>::kVector, aligned, words);
    }
  }

 private:
  static constexpr int kPerWord = Format<T>::kPerWord;
  float values_[Base::kWords][kPerWord];
  float correction_;
};

// The element at `index` of a row, or −infinity, which changes no maximum and no sum.
template <class T>
__device__ __forceinline__ float LoadEdge(const T* row, int index) {
  return index < 0 ? MinusInfinity() : Format<T>::ToFloat(row[index]);
}

template <class T, class Exponentials>
__device__ __forceinline__ void StoreEdge(T* row, int index, float value,
                                          const Normalizer<Exponentials>& normalizer) {
  if (index >= 0) row[index] = Format<T>::FromFloat(normalizer(value));
}

// A thread's vectors of a row that is read twice: those from `begin` to before `end`, of the thread
// and every kThreads-th after it, kVectors of them in flight.
template <class T, int kThreads, int kVectors>
struct TwiceReadVectors {
  const uint4* from;  // the row's
  int begin;
  int end;
  static constexpr int kStep = kThreads * kVectors;

  // With an edge. The sum is corrected when the maximum grows.
  [[nodiscard]] __device__ Partial Sum(float edge_value) const {
    Partial partial = {edge_value, Exponential(edge_value - Reference(edge_value))};
    Vectors<T, kVectors> vectors;
    for (int first = begin; first < end; first += kStep) {
      vectors.Load(from + first, end - first, kThreads);
      const float max = fmaxf(partial.max, vectors.Max());
      const Exponentials exponentials(Reference(max));
      partial.sum = partial.sum * exponentials(partial.max) + vectors.Sum(exponentials);
      partial.max = max;
    }
    return partial;
  }
  // `to`: where the result of the row's vector 0 goes.
  __device__ void Write(T* to, const Normalizer<>& normalizer) const {
    Vectors<T, kVectors> vectors;
    for (int first = begin; first < end; first += kStep) {
      vectors.Load(from + first, end - first, kThreads);
      vectors.Store(to + static_cast<long>(first) * Span<T>::kVector, end - first, kThreads,
                    normalizer);
    }
  }
};

}  // namespace overlapbench::softmax
