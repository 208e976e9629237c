// What a launch of softmax_parts.cu works on: a plan of parts of rows, the row of a part, and where
// its vectors are in memory.
//
// Parts are numbered over all rows, in their order in memory. Copies keep the row's position
// relative to 128-byte boundaries, and parts are cut at them; shifted copies are slower. A row's
// edges, which form no whole vector, go with its first part.
#pragma once

#include "kernels/cuda/softmax_row.cuh"
#include "kernels/softmax.h"
#include "kernels/softmax_cut.h"

namespace overlapbench::softmax {

// The beginning of kFused's workspace.
struct PartsWorkspace {
  static constexpr unsigned kMostParts = 65535;
  // A float each in the lower half, and the number of the launch that wrote it in the upper half.
  struct Sum {
    std::uint64_t max;
    std::uint64_t sum;
  };
  unsigned launches;         // that have ended
  unsigned taken_parts;      // of the current one
  unsigned finished_blocks;  // they have published all their sums
  unsigned left_parts;       // the last of those blocks sets these three back to 0
  alignas(16) Sum sums[kMostParts];
};
static_assert(sizeof(PartsWorkspace) == kSoftmaxPartsWorkspaceBytes);
// The numbers of the parts that were left follow it.
static_assert(PartsWorkspace::kMostParts * sizeof(unsigned) <=
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
  int slots;    // of a block
  PartsWorkspace* workspace;

  [[nodiscard]] __device__ unsigned* left() const {
    return reinterpret_cast<unsigned*>(workspace + 1);
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
  [[nodiscard]] __device__ PartsWorkspace::Sum* Sums(const Plan<T>& plan) const {
    return plan.workspace->sums + number * plan.parts_of_row;
  }
  // The edge of this lane, as an index into the row, or −1.
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

}  // namespace overlapbench::softmax
